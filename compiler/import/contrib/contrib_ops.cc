#include "compiler/import/contrib/contrib_ops.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <onnx/defs/parser.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compiler/import/function_import.h"
#include "compiler/support/check.h"

namespace fusec {
namespace {

constexpr std::string_view kGatherBlockQuantized = "GatherBlockQuantized";

std::string NameOf(const ContribOp& op) {
  const std::string_view signature = op.signature;
  return std::string(signature.substr(0, signature.find(' ')));
}

using OpsByName = std::map<std::string, const ContribOp*>;

OpsByName ByName(std::initializer_list<ArrayRef<ContribOp>> lists) {
  OpsByName all;
  for (const ArrayRef<ContribOp> list : lists) {
    for (const ContribOp& op : list) all.emplace(NameOf(op), &op);
  }
  return all;
}

// The ops of a domain.
const OpsByName& OpsOf(const std::string& domain) {
  static const auto& onnxruntimes =
      *new OpsByName(ByName({ContribActivations(), ContribAttention(), ContribNorms(),
                             ContribProducts(), ContribQuantized(), ContribTensors()}));
  static const auto& tensorflows = *new OpsByName(ByName({TensorFlowOps()}));
  static const auto& none = *new OpsByName;
  return domain == kContribDomain ? onnxruntimes : domain == kTensorFlowDomain ? tensorflows : none;
}

// The signature, with a name for every input that a node can have: "x..." stands for x0, x1, ...
std::string SignatureFor(const ContribOp& op, const onnx::NodeProto& node) {
  std::string signature = op.signature;
  constexpr std::string_view kMore = "x...";
  const size_t more = signature.find(kMore);
  if (more == std::string::npos) return signature;
  std::vector<std::string> names;
  for (int i = 0; i < std::max(node.input_size(), 1); ++i) names.push_back(fmt::format("x{}", i));
  return signature.replace(more, kMore.size(), fmt::format("{}", fmt::join(names, ", ")));
}

onnx::FunctionProto Parse(const ContribOp& op, const onnx::NodeProto& node,
                          const std::string& statements) {
  const std::string text = fmt::format(
      "<domain: \"{}\", opset_import: [\"\": {}, \"{}\": 1]>\n{}\n{{{}}}", kContribDomain,
      kContribOpset, kContribDomain, SignatureFor(op, node), statements);
  onnx::FunctionProto function;
  const auto status = onnx::OnnxParser::Parse(function, text.c_str());
  FUSEC_CHECK(status.IsOK(), status.ErrorMessage() + "\n" + text);
  return function;
}

Result<void> CheckNode(const ContribOp& op, const onnx::FunctionProto& signature,
                       const onnx::NodeProto& node) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    const std::string& name = attribute.name();
    const auto& plain = signature.attribute();
    const auto& defaults = signature.attribute_proto();
    if (std::find(plain.begin(), plain.end(), name) == plain.end() &&
        std::none_of(defaults.begin(), defaults.end(),
                     [&](const onnx::AttributeProto& one) { return one.name() == name; })) {
      return ModelError("attribute " + name + " is not supported");
    }
  }
  if (node.input_size() > signature.input_size()) {
    return ModelError(fmt::format("has {} inputs, expected at most {}", node.input_size(),
                                  signature.input_size()));
  }
  for (int i = 0; i < op.least_inputs; ++i) {
    if (i >= node.input_size() || node.input(i).empty())
      return ModelError(fmt::format("input {} ({}) is missing", i, signature.input(i)));
  }
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty() || i < signature.output_size()) continue;
    return ModelError(fmt::format("output {} (\"{}\") is not supported", i, node.output(i)));
  }
  return {};
}

// An error if the body does not compute an output that the node has.
Result<void> CheckOutputs(const onnx::FunctionProto& function, const onnx::NodeProto& node) {
  std::set<std::string> computed;
  for (const onnx::NodeProto& part : function.node())
    computed.insert(part.output().begin(), part.output().end());
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty() || computed.count(function.output(i))) continue;
    return ModelError(fmt::format("output {} ({}) is not supported", i, function.output(i)));
  }
  return {};
}

}  // namespace

std::vector<std::string> ContribOpNames() {
  std::vector<std::string> names = {std::string(kGatherBlockQuantized)};
  for (const auto& [name, op] : OpsOf(std::string(kContribDomain))) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

bool IsContribOp(const std::string& domain, const std::string& op_type) {
  return (domain == kContribDomain && op_type == kGatherBlockQuantized) ||
         OpsOf(domain).count(op_type) != 0;
}

Result<void> ImportContribOp(const onnx::NodeProto& node, NodeContext& context, ImportState& state,
                             const Scope& scope, ValueList& results) {
  FUSEC_TRY(context.ReadTensors());
  if (node.op_type() == kGatherBlockQuantized) {
    FUSEC_TRY(ImportGatherBlockQuantized(context, state));
    for (int i = 0; i < node.output_size(); ++i) results.push_back(context.output(i));
    return {};
  }
  const ContribOp& op = *OpsOf(node.domain()).at(node.op_type());
  const onnx::FunctionProto signature = Parse(op, node, "");
  FUSEC_TRY(CheckNode(op, signature, node));
  if (op.kind) {
    ValueList operands;
    for (int i = 0; i < node.input_size(); ++i) operands.push_back(context.input(i));
    FUSEC_ASSIGN(const Node* added, state.builder.Add(*op.kind, operands));
    results.push_back(added->result());
    return {};
  }
  std::string statements = op.statements == nullptr ? "" : op.statements;
  if (op.body != nullptr) {
    FUSEC_ASSIGN(statements, op.body(ContribNode(context, signature)));
  }
  onnx::FunctionProto function = Parse(op, node, statements);
  FUSEC_TRY(CheckOutputs(function, node));
  ImportAsFunction(std::move(function), node, state, scope, results);
  return {};
}

}  // namespace fusec
