#include "compiler/import/graph_import.h"

#include <onnx/checker.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <exception>
#include <limits>

#include "compiler/import/contrib/contrib_ops.h"
#include "compiler/import/function_import.h"
#include "compiler/import/loop_import.h"
#include "compiler/import/loop_recurrence.h"
#include "compiler/import/loop_unroll.h"
#include "compiler/import/ml/ml_ops.h"
#include "compiler/import/names.h"
#include "compiler/import/narrow_types.h"
#include "compiler/import/node_order.h"
#include "compiler/import/provenance.h"
#include "compiler/import/sequence_import.h"
#include "compiler/import/subgraph.h"
#include "compiler/import/weight_match.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/symbolic_contents.h"

namespace fusec {
namespace {

Result<void> CheckCount(const std::string& what, int found, int least, int most) {
  if (found >= least && found <= most) return {};
  std::string expected = std::to_string(least);
  if (most == std::numeric_limits<int>::max())
    expected += " or more";
  else if (most != least)
    expected += " to " + std::to_string(most);
  return ModelError("has " + std::to_string(found) + " " + what + (found == 1 ? "" : "s") +
                    ", expected " + expected);
}

class NodeImporter {
 public:
  NodeImporter(ImportState& state, Scope& scope, onnx::NodeProto& node)
      : state_(state), scope_(scope), node_(node), context_(state, scope, node) {}

  void Run() {
    for (const std::string& output : node_.output()) Define(output, nullptr);
    if (!IsSupported()) {
      const auto opset = state_.opsets.find(node_.domain());
      state_.problems.AddUnsupported(node_, opset == state_.opsets.end() ? 0 : opset->second);
      return;
    }
    if (NeedsFailedTensor()) return;
    const size_t nodes_before = state_.graph.nodes.size();
    state_.builder.set_provenance({OriginOf(node_)});
    const Result<void> imported = Import();
    state_.builder.set_provenance({});
    if (!imported && imported.error().message.empty()) return;  // reported already
    if (!imported) {
      state_.problems.Add(WithPlace(imported.error().message), imported.error().fitting_dim);
      return;
    }
    for (int i = 0; i < node_.output_size(); ++i) {
      if (scope_.GetSequence(node_.output(i)) != nullptr) continue;
      Define(node_.output(i), context_.output(i));
      NameResult(node_.output(i), context_.output(i), nodes_before);
    }
  }

 private:
  void Define(const std::string& tensor, Value* value) {
    if (!tensor.empty()) scope_.Define(tensor, value);
  }

  bool NeedsFailedTensor() const {
    return std::any_of(node_.input().begin(), node_.input().end(), [&](const std::string& input) {
      return !input.empty() && !scope_.Find(input);
    });
  }

  bool IsSupported() const {
    if (node_.domain().empty()) {
      for (const char* op : {"Constant", "If", "Loop", "Scan"}) {
        if (node_.op_type() == op) return true;
      }
      if (IsSequenceOp(node_.op_type())) return true;
    }
    return HasOwnOp() || IsContribOp(node_.domain(), node_.op_type()) ||
           HasFunctionBody(node_, state_);
  }
  // How the node becomes IR ops, if a row of op_list.def or expansion_list.def, or ml_ops.h, says
  // it; otherwise null.
  fusec::ImportFunction OwnImport() const {
    if (node_.domain() == kMlDomain) return FindMlImport(node_.op_type());
    return node_.domain().empty() ? FindImport(node_.op_type()) : nullptr;
  }
  bool HasOwnOp() const { return OwnImport() != nullptr; }

  Result<void> Import() {
    if (node_.op_type() == "Constant") return ImportConstant();
    if (node_.op_type() == "If") return ImportIf();
    if (node_.op_type() == "Loop" || node_.op_type() == "Scan") return ImportLoop();
    if (IsContribOp(node_.domain(), node_.op_type())) {
      ValueList results;
      FUSEC_TRY(ImportContribOp(node_, context_, state_, scope_, results));
      SetResults(results);
      return {};
    }
    FUSEC_TRY(CheckSchema(node_, state_, scope_));
    if (IsSequenceOp(node_.op_type())) return ImportSequenceOp();
    for (const std::string& input : node_.input()) {
      if (const Sequence* sequence = scope_.GetSequence(input)) {
        if (node_.op_type() != "Identity") {
          return ModelError("reads the sequence \"" + input + "\", expected a tensor");
        }
        scope_.Define(node_.output(0), *sequence);
        return {};
      }
    }
    if (FindOpByOnnx(node_.op_type()) == nullptr) FUSEC_TRY(CheckDtypes());
    if (!HasOwnOp()) return ImportFunction();
    FUSEC_TRY(context_.ReadTensors());
    FUSEC_TRY(OwnImport()(context_));
    KeepNarrowTypes();
    for (int i = 0; i < node_.output_size(); ++i) {
      if (context_.output_used(i) && context_.output(i) == nullptr) {
        return ModelError("fusec does not support output " + std::to_string(i) + " (\"" +
                          node_.output(i) + "\")");
      }
    }
    return {};
  }

  // Ops that move elements, such as Reshape and Gather, keep their narrow type: the outputs for
  // which ONNX's schema names the type of an input have it.
  void KeepNarrowTypes() {
    if (state_.narrow.empty()) return;
    const onnx::OpSchema* schema = SchemaOf(node_, state_);
    if (schema == nullptr) return;
    for (int i = 0; i < node_.input_size(); ++i) {
      const std::optional<NarrowType> narrow = context_.Narrow(i);
      if (!narrow) continue;
      const std::string& type = FormalAt(schema->inputs(), i).GetTypeStr();
      for (int k = 0; k < node_.output_size(); ++k) {
        Value* output = context_.output(k);
        if (output != nullptr && FormalAt(schema->outputs(), k).GetTypeStr() == type)
          context_.SetOutput(k, output, *narrow);
      }
    }
  }

  // The last formal parameter may stand for any number of them.
  static const onnx::OpSchema::FormalParameter& FormalAt(
      const std::vector<onnx::OpSchema::FormalParameter>& formals, int i) {
    return formals[std::min<size_t>(i, formals.size() - 1)];
  }

  // Checks that operands have element types that ONNX's schema allows, and equal ones where the
  // schema requires it. It serves ops that are not imported as an IR op, whose Infer would check
  // this.
  Result<void> CheckDtypes() const {
    const onnx::OpSchema* schema = SchemaOf(node_, state_);
    std::map<std::string, Dtype> bound;  // by the schema's name of a type
    const auto& formals = schema->inputs();
    for (int i = 0; i < node_.input_size() && !formals.empty(); ++i) {
      const auto& formal = FormalAt(formals, i);
      const Value* value = context_.input(i);
      if (value == nullptr) continue;  // optional
      const Dtype dtype = value->type.dtype;
      const std::string type = "tensor(" + OnnxTypeName(OnnxTypeOf(dtype)) + ")";
      const auto& allowed = formal.GetTypes();
      const bool is_allowed = state_.narrow.count(value) != 0 ||
                              std::any_of(allowed.begin(), allowed.end(),
                                          [&](const std::string* one) { return *one == type; });
      const auto [same, is_new] = bound.emplace(formal.GetTypeStr(), dtype);
      if (is_allowed && (is_new || same->second == dtype || !formal.GetIsHomogeneous())) continue;
      return ModelError("input " + std::to_string(i) + " (" + formal.GetName() + ") is " +
                        value->type.ToString() + ", expected " +
                        (is_allowed ? std::string(DtypeName(same->second)) : "another dtype"));
    }
    return {};
  }

  Result<void> ImportConstant() {
    if (node_.attribute_size() != 1 || node_.output_size() != 1) {
      return ModelError("has " + std::to_string(node_.attribute_size()) + " attributes and " +
                        std::to_string(node_.output_size()) + " outputs, expected one each");
    }
    onnx::AttributeProto& attribute = *node_.mutable_attribute(0);
    FUSEC_ASSIGN(TensorData data, ConstantAttribute(attribute));
    Value* value = state_.builder.Constant(std::move(data), TensorIdentifier(node_.output(0)));
    state_.constant_names[value->name] = node_.output(0);
    if (const auto narrow = NarrowTypeFromOnnx(attribute.t().data_type()))
      context_.SetOutput(0, value, *narrow);
    else
      context_.SetOutput(0, value);
    return {};
  }

  Result<TensorData> ConstantAttribute(onnx::AttributeProto& attribute) {
    const std::string& name = attribute.name();
    if (name == "value") {
      Result<TensorData> tensor = TakeTensor(*attribute.mutable_t(), state_.external);
      if (!tensor) return ModelError("attribute value " + tensor.error().message);
      return tensor;
    }
    const auto count = [](const auto& list) { return std::vector<int64_t>{list.size()}; };
    if (name == "value_float") return TensorData::From<double>(Dtype::kF32, {}, {attribute.f()});
    if (name == "value_int") return TensorData::From<int64_t>(Dtype::kI64, {}, {attribute.i()});
    if (name == "value_floats") {
      const auto& list = attribute.floats();
      return TensorData::From<float>(Dtype::kF32, count(list), {list.begin(), list.end()});
    }
    if (name == "value_ints") {
      const auto& list = attribute.ints();
      return TensorData::From<int64_t>(Dtype::kI64, count(list), {list.begin(), list.end()});
    }
    return ModelError("attribute " + name +
                      " is not supported, expected one of value, "
                      "value_float, value_floats, value_int, value_ints");
  }

  // If the condition is known, only the branch that it takes is inlined. If it is run-time data,
  // both branches are inlined and a `where` chooses between their results.
  Result<void> ImportIf() {
    const onnx::GraphProto* branches[] = {SubgraphOf(node_, "else_branch"),
                                          SubgraphOf(node_, "then_branch")};
    for (const onnx::GraphProto* branch : branches) {
      if (branch == nullptr) return ModelError("has no attribute then_branch or no else_branch");
      if (branch->output_size() != node_.output_size()) {
        return ModelError("the branch has " + std::to_string(branch->output_size()) +
                          " outputs, expected " + std::to_string(node_.output_size()));
      }
    }
    Value* condition = context_.input(0);
    if (condition == nullptr) return ModelError("the condition is missing");
    const std::optional<TensorData> known = context_.TryConstant(0);
    const auto elements = condition->type.ElementCount().AsConstant();
    if (elements != 1) {
      return ModelError("the condition is " + condition->type.ToString() + ", expected 1 element");
    }
    if (condition->type.dtype != Dtype::kBool)
      return ModelError("the condition is " + condition->type.ToString() + ", expected bool");
    if (known) {
      FUSEC_ASSIGN(const auto taken,
                   InlineSubgraph(*branches[known->GetInt(0) != 0 ? 1 : 0], {}, state_, scope_));
      for (size_t i = 0; i < taken.size(); ++i) SetResult(static_cast<int>(i), taken[i]);
      return {};
    }
    if (const std::optional<FittingDim> larger = SizesThatDecide(condition)) {
      return tl::unexpected<Error>(
          Error{ErrorKind::kModel, "the condition is whether " + larger->symbol + " is 1", larger});
    }
    FUSEC_ASSIGN(const auto otherwise, InlineSubgraph(*branches[0], {}, state_, scope_));
    FUSEC_ASSIGN(const auto then, InlineSubgraph(*branches[1], {}, state_, scope_));
    state_.builder.set_provenance({OriginOf(node_)});
    if (condition->type.rank() > 0) {
      condition = state_.builder.Make(OpKind::kReshape, {condition}, {{"shape", Shape{}}});
    }
    for (size_t i = 0; i < then.size(); ++i) {
      Value* const* a = std::get_if<Value*>(&then[i]);
      Value* const* b = std::get_if<Value*>(&otherwise[i]);
      if (a == nullptr || b == nullptr || !((*a)->type == (*b)->type)) {
        return ModelError("the condition is computed from run-time data, and output " +
                          std::to_string(i) + " is " + (a ? (*a)->type.ToString() : "a sequence") +
                          " or " + (b ? (*b)->type.ToString() : "a sequence") +
                          ", which fusec does not support");
      }
      context_.SetOutput(static_cast<int>(i),
                         state_.builder.Make(OpKind::kWhere, {condition, *a, *b}));
    }
    return {};
  }

  // Exporters write an If that asks whether a dim is 1 before they squeeze it. If excluding the
  // size 1 of a symbol decides the condition, this returns its sizes from 2 on.
  std::optional<FittingDim> SizesThatDecide(const Value* condition) const {
    for (const DimSymbol& symbol : state_.graph.symbols) {
      if (symbol.low > 1 || symbol.high < 2) continue;
      Ranges ranges = state_.ranges;
      ranges.Set(symbol.name, 2, symbol.high);
      const auto contents = SymbolicContents(condition, ranges);
      if (contents && (*contents)[0].AsConstant()) {
        return FittingDim{symbol.name, 2, symbol.high};
      }
    }
    return std::nullopt;
  }

  void SetResult(int i, const Named& result) {
    if (Value* const* tensor = std::get_if<Value*>(&result)) {
      context_.SetOutput(i, *tensor);
    } else {
      scope_.Define(node_.output(i), result);
    }
  }

  // Loops over independent steps, over the steps of a recurrent cell, and over embedding bags
  // become a few ops; other loops of a known length are unrolled.
  Result<void> ImportLoop() {
    ValueList results;
    const Result<void> cell = ImportRecurrentLoop(node_, context_, state_, scope_, results);
    if (cell) {
      SetResults(results);
      return {};
    }
    if (node_.op_type() == "Loop") {
      const Problems before = state_.problems;
      onnx::NodeProto copy = node_;
      const Result<void> bags = fusec::ImportLoop(copy, state_, scope_, results);
      if (bags) {
        SetResults(results);
        return {};
      }
      if (!CanUnroll(node_, context_, state_, scope_))
        return cell.error().message.empty() ? bags : cell;
      state_.problems = before;
      results.clear();
    } else if (!CanUnroll(node_, context_, state_, scope_)) {
      if (!cell.error().message.empty()) return cell;
      return ModelError("the length that it scans is not a constant, which fusec does not support");
    }
    state_.builder.set_provenance({OriginOf(node_)});
    FUSEC_TRY(Unroll(node_, context_, state_, scope_, results));
    SetResults(results);
    return {};
  }
  void SetResults(ArrayRef<Value*> results) {
    for (size_t i = 0; i < results.size(); ++i) context_.SetOutput(static_cast<int>(i), results[i]);
  }

  Result<void> ImportSequenceOp() {
    ValueList outputs(node_.output_size(), nullptr);
    FUSEC_TRY(fusec::ImportSequenceOp(node_, context_, state_, scope_, outputs));
    SetResults(outputs);
    return {};
  }

  Result<void> ImportFunction() {
    ValueList results;
    FUSEC_TRY(ImportFunctionBody(node_, state_, scope_, results));
    SetResults(results);
    return {};
  }

  // Adds the node's label to a message, unless the op already added it.
  std::string WithPlace(const std::string& message) const {
    const std::string file = state_.problems.path() + ": ";
    if (message.starts_with(file)) return message.substr(file.size());
    return NodeLabel(node_) + ": " + message;
  }

  // Names a result of a new node after its ONNX tensor. A value that was only passed on keeps its
  // first name.
  void NameResult(const std::string& tensor, Value* value, size_t nodes_before) {
    if (tensor.empty() || value == nullptr || value->producer == nullptr) return;
    const auto& nodes = state_.graph.nodes;
    const bool made_here =
        std::any_of(nodes.begin() + static_cast<int64_t>(nodes_before), nodes.end(),
                    [&](const auto& node) { return node.get() == value->producer; });
    const std::string wanted = TensorIdentifier(tensor);
    if (!made_here || value->name == wanted) return;
    state_.graph.Rename(value, wanted);
  }

  ImportState& state_;
  Scope& scope_;
  onnx::NodeProto& node_;
  NodeContext context_;
};

// The tensor that replaces an initializer with the values `data`, or `data` itself.
Result<TensorData> Replaced(const onnx::TensorProto& proto, TensorData data,
                            const ImportState& state) {
  if (state.weight_match == nullptr) return data;
  const std::byte* stored = data.bytes();
  FUSEC_ASSIGN(TensorData weights, state.weight_match->Replacement(proto.name(), std::move(data)));
  if (weights.bytes() != stored && NarrowTypeFromOnnx(proto.data_type())) {
    return Fail(ErrorKind::kInput, "the model stores it as " + OnnxTypeName(proto.data_type()) +
                                       ", which can only be replaced by compiling another model");
  }
  return weights;
}

}  // namespace

Result<void> CheckSchema(const onnx::NodeProto& node, const ImportState& state,
                         const Scope& scope) {
  const onnx::OpSchema* schema = SchemaOf(node, state);
  if (schema == nullptr) {
    return ModelError("opset " + std::to_string(state.opsets.at(node.domain())) + " of " +
                      DomainName(node.domain()) + " has no such op");
  }
  FUSEC_TRY(CheckCount("input", node.input_size(), schema->min_input(), schema->max_input()));
  FUSEC_TRY(CheckCount("output", node.output_size(), schema->min_output(), schema->max_output()));
  const auto& formals = schema->inputs();
  for (size_t i = 0; i < formals.size() && formals[i].GetOption() == onnx::OpSchema::Single; ++i) {
    if (node.input(static_cast<int>(i)).empty()) {
      return ModelError("input " + std::to_string(i) + " (" + formals[i].GetName() +
                        ") is missing");
    }
  }
  onnx::checker::CheckerContext checker;
  checker.set_ir_version(static_cast<int>(onnx::Version::IR_VERSION));
  std::unordered_map<std::string, int> opsets;
  for (const auto& [name, version] : state.opsets) opsets[name] = static_cast<int>(version);
  checker.set_opset_imports(std::move(opsets));
  checker.set_model_dir(state.external.folder());
  onnx::checker::LexicalScopeContext outside;
  for (const std::string& name : CapturesOf(node)) {
    if (scope.Knows(name)) outside.add(name);
  }
  try {
    onnx::checker::check_node(node, checker, outside);
  } catch (const std::exception& error) {
    return ModelError(OneLine(error.what()));
  }
  return {};
}

void ImportInitializers(onnx::GraphProto& graph, const Payloads& payloads, ImportState& state,
                        Scope& scope) {
  const std::set<std::string> used = UsedTensors(graph);
  for (const auto& sparse : graph.sparse_initializer()) {
    const std::string& name = sparse.values().name();
    scope.Define(name, nullptr);
    if (used.count(name)) {
      state.problems.Add("initializer \"" + name + "\" is sparse, which fusec does not support");
    }
  }
  for (int i = 0; i < graph.initializer_size(); ++i) {
    onnx::TensorProto& proto = *graph.mutable_initializer(i);
    // A frozen input overrides its own default.
    if (!used.count(proto.name()) || scope.GetOwn(proto.name()) != nullptr) continue;
    const auto payload = payloads.find(i);
    Result<TensorData> data =
        TakeTensor(proto, state.external,
                   payload == payloads.end() ? std::nullopt : std::optional(payload->second));
    if (data) data = Replaced(proto, *std::move(data), state);
    Value* value = nullptr;
    if (data) {
      value = state.builder.Constant(*std::move(data), TensorIdentifier(proto.name()));
      state.constant_names[value->name] = proto.name();
      if (const auto narrow = NarrowTypeFromOnnx(proto.data_type()))
        state.narrow.emplace(value, *narrow);
    } else {
      state.problems.Add("initializer \"" + proto.name() + "\": " + data.error().message);
    }
    scope.Define(proto.name(), value);
  }
}

void ImportNodes(onnx::GraphProto& graph, ImportState& state, Scope& scope) {
  Problems structure(state.problems.path());
  const std::vector<int> order = OrderNodes(
      graph, [&](const std::string& tensor) { return scope.Knows(tensor); }, structure);
  state.problems.Append(structure);
  if (!structure.empty()) return;
  for (const int i : order) NodeImporter(state, scope, *graph.mutable_node(i)).Run();
}

void ImportNode(onnx::NodeProto& node, ImportState& state, Scope& scope) {
  NodeImporter(state, scope, node).Run();
}

}  // namespace fusec
