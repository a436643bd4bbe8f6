#include "compiler/import/graph_import.h"

#include <onnx/checker.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <exception>
#include <limits>

#include "compiler/import/loop_import.h"
#include "compiler/import/names.h"
#include "compiler/import/node_order.h"
#include "compiler/import/provenance.h"
#include "compiler/ir/op_def.h"

namespace fusec {
namespace {

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
      return !input.empty() && scope_.Get(input) == nullptr && !state_.sequences.count(input);
    });
  }

  bool IsSupported() const {
    if (!node_.domain().empty()) return false;
    for (const char* op : {"Constant", "If", "Loop", "SequenceEmpty", "ConcatFromSequence"}) {
      if (node_.op_type() == op) return true;
    }
    const OpDef* op = FindOpByOnnx(node_.op_type());
    return op != nullptr && op->functions.import != nullptr;
  }

  Result<void> Import() {
    if (node_.op_type() == "Constant") return ImportConstant();
    if (node_.op_type() == "If") return ImportIf();
    if (node_.op_type() == "Loop") return ImportLoop();
    FUSEC_TRY(CheckSchema());
    if (node_.op_type() == "SequenceEmpty") {
      state_.sequences[node_.output(0)] = nullptr;
      return {};
    }
    if (node_.op_type() == "ConcatFromSequence") return ImportConcatFromSequence();
    for (const std::string& input : node_.input()) {
      if (state_.sequences.count(input)) {
        return ModelError("reads the sequence \"" + input +
                          "\", which fusec supports between a Loop and a ConcatFromSequence only");
      }
    }
    FUSEC_TRY(context_.ReadTensors());
    FUSEC_TRY(FindOpByOnnx(node_.op_type())->functions.import(context_));
    for (int i = 0; i < node_.output_size(); ++i) {
      if (context_.output_used(i) && context_.output(i) == nullptr) {
        return ModelError("fusec does not support output " + std::to_string(i) + " (\"" +
                          node_.output(i) + "\")");
      }
    }
    return {};
  }

  // Attributes, their kinds and the number of inputs and outputs, as ONNX's own schema wants them.
  Result<void> CheckSchema() const {
    const auto* schema = onnx::OpSchemaRegistry::Schema(node_.op_type(), context_.opset(), "");
    if (schema == nullptr) {
      return ModelError("opset " + std::to_string(context_.opset()) + " of ai.onnx has no such op");
    }
    FUSEC_TRY(CheckCount("input", node_.input_size(), schema->min_input(), schema->max_input()));
    FUSEC_TRY(
        CheckCount("output", node_.output_size(), schema->min_output(), schema->max_output()));
    onnx::checker::CheckerContext checker;
    checker.set_ir_version(static_cast<int>(onnx::Version::IR_VERSION));
    checker.set_opset_imports({{"", context_.opset()}});
    checker.set_model_dir(state_.external.folder());
    try {
      onnx::checker::check_node(node_, checker, onnx::checker::LexicalScopeContext());
    } catch (const std::exception& error) {
      return ModelError(OneLine(error.what()));
    }
    return {};
  }

  static Result<void> CheckCount(const std::string& what, int found, int least, int most) {
    if (found >= least && found <= most) return {};
    std::string expected = std::to_string(least);
    if (most == std::numeric_limits<int>::max())
      expected += " or more";
    else if (most != least)
      expected += " to " + std::to_string(most);
    return ModelError("has " + std::to_string(found) + " " + what + (found == 1 ? "" : "s") +
                      ", expected " + expected);
  }

  Result<void> ImportConstant() {
    if (node_.attribute_size() != 1 || node_.output_size() != 1) {
      return ModelError("has " + std::to_string(node_.attribute_size()) + " attributes and " +
                        std::to_string(node_.output_size()) + " outputs, expected one each");
    }
    FUSEC_ASSIGN(TensorData data, ConstantAttribute(*node_.mutable_attribute(0)));
    context_.SetOutput(0,
                       state_.builder.Constant(std::move(data), TensorIdentifier(node_.output(0))));
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

  // The branch that a constant condition takes becomes part of the graph.
  Result<void> ImportIf() {
    const std::optional<TensorData> condition = context_.TryConstant(0);
    if (!condition) {
      return ModelError(
          "the condition is computed from run-time data, which fusec does not support");
    }
    if (condition->element_count() != 1) {
      return ModelError("the condition has " + std::to_string(condition->element_count()) +
                        " elements, expected 1");
    }
    const std::string wanted = condition->GetInt(0) != 0 ? "then_branch" : "else_branch";
    for (onnx::AttributeProto& attribute : *node_.mutable_attribute()) {
      if (attribute.name() == wanted && attribute.has_g()) return Inline(*attribute.mutable_g());
    }
    return ModelError("has no attribute " + wanted);
  }

  Result<void> Inline(onnx::GraphProto& branch) {
    if (branch.output_size() != node_.output_size()) {
      return ModelError("the branch has " + std::to_string(branch.output_size()) +
                        " outputs, expected " + std::to_string(node_.output_size()));
    }
    Scope inner(&scope_);
    ImportInitializers(branch, {}, state_, inner);
    ImportNodes(branch, state_, inner);
    for (int i = 0; i < branch.output_size(); ++i) {
      context_.SetOutput(i, inner.Get(branch.output(i).name()));
    }
    return {};
  }

  Result<void> ImportLoop() {
    ValueList results;
    FUSEC_TRY(fusec::ImportLoop(node_, state_, scope_, results));
    for (size_t i = 0; i < results.size(); ++i) context_.SetOutput(static_cast<int>(i), results[i]);
    return {};
  }

  // The rows that a loop has put into a sequence one by one.
  Result<void> ImportConcatFromSequence() {
    const auto sequence = state_.sequences.find(node_.input(0));
    if (sequence == state_.sequences.end() || sequence->second == nullptr) {
      return ModelError("its input is not the sequence of a Loop, which fusec does not support");
    }
    if (context_.Int("axis", 0) != 0 || context_.Int("new_axis", 0) != 0) {
      return ModelError("axis is " + std::to_string(context_.Int("axis", 0)) + " and new_axis " +
                        std::to_string(context_.Int("new_axis", 0)) + ", expected 0 and 0");
    }
    context_.SetOutput(0, sequence->second);
    return {};
  }

  // Ops give errors with or without the place.
  std::string WithPlace(const std::string& message) const {
    const std::string file = state_.problems.path() + ": ";
    if (message.starts_with(file)) return message.substr(file.size());
    return NodeLabel(node_) + ": " + message;
  }

  // Gives a result of a new node the name of its tensor. A tensor that is passed on keeps its first
  // name.
  void NameResult(const std::string& tensor, Value* value, size_t nodes_before) {
    if (tensor.empty() || value == nullptr || value->producer == nullptr) return;
    const auto& nodes = state_.graph.nodes;
    const bool made_here =
        std::any_of(nodes.begin() + static_cast<int64_t>(nodes_before), nodes.end(),
                    [&](const auto& node) { return node.get() == value->producer; });
    const std::string wanted = TensorIdentifier(tensor);
    if (!made_here || value->name == wanted) return;
    value->name.clear();
    value->name = state_.graph.UniqueName(wanted);
  }

  ImportState& state_;
  Scope& scope_;
  onnx::NodeProto& node_;
  NodeContext context_;
};

}  // namespace

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
    Value* value = nullptr;
    if (data)
      value = state.builder.Constant(*std::move(data), TensorIdentifier(proto.name()));
    else
      state.problems.Add("initializer \"" + proto.name() + "\": " + data.error().message);
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
