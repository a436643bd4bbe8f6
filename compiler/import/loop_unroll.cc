#include "compiler/import/loop_unroll.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/import/subgraph.h"

namespace fusec {
namespace {

constexpr int64_t kMostTrips = 1024;
constexpr int64_t kMostNodes = 20'000;

int64_t IntAttribute(const onnx::NodeProto& node, const std::string& name) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name) return attribute.i();
  }
  return 0;
}

// Element `i` of a list of ints that an attribute holds, 0 where the list is absent or too short.
int64_t ListedInt(const onnx::NodeProto& node, const std::string& name, int i) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name && i < attribute.ints_size()) return attribute.ints(i);
  }
  return 0;
}

class Unroller {
 public:
  Unroller(const onnx::NodeProto& node, ImportState& state, Scope& scope)
      : node_(node), state_(state), scope_(scope), body_(SubgraphOf(node, "body")) {}

  bool CanUnroll() const {
    if (body_ == nullptr) return false;
    const std::optional<int64_t> trips = Trips();
    return trips && *trips >= 0 && *trips <= kMostTrips &&
           *trips * body_->node_size() <= kMostNodes;
  }

  Result<void> Run(ValueList& results) {
    const bool is_scan = node_.op_type() == "Scan";
    if (is_scan && state_.opsets.at("") < 9) {
      return ModelError("the opset is " + std::to_string(state_.opsets.at("")) +
                        ", expected 9 or more for a Scan");
    }
    const int scanned = is_scan ? static_cast<int>(IntAttribute(node_, "num_scan_inputs")) : 0;
    const int first = is_scan ? 0 : 2;  // of the carried inputs
    const int carried = node_.input_size() - first - scanned;
    const int own = is_scan ? 0 : 2;   // inputs of a loop's body that are the counter and condition
    const int kept = is_scan ? 0 : 1;  // output of a loop's body that is the condition
    if (carried < 0 || body_->input_size() != own + carried + scanned ||
        body_->output_size() != kept + node_.output_size() || node_.output_size() < carried) {
      return ModelError("the numbers of its inputs, outputs and body's values do not match");
    }
    std::vector<Named> state;
    for (int i = 0; i < carried; ++i) {
      std::optional<Named> found = FindNamed(scope_, node_.input(first + i));
      if (!found) return ModelError("");
      state.push_back(*std::move(found));
    }
    std::vector<ValueList> collected(node_.output_size() - carried);
    const Provenance provenance = state_.builder.provenance();
    bool goes_on = true;
    if (!is_scan) {
      FUSEC_ASSIGN(goes_on, Condition(Given(1)));
    }
    const int64_t trips = *Trips();
    for (int64_t trip = 0; goes_on && trip < trips; ++trip) {
      std::vector<Named> inputs;
      if (!is_scan) {
        inputs.push_back(Constant(Dtype::kI64, trip));
        inputs.push_back(Constant(Dtype::kBool, 1));
      }
      inputs.insert(inputs.end(), state.begin(), state.end());
      for (int i = 0; i < scanned; ++i) {
        FUSEC_ASSIGN(Value * element, ScanElement(carried + i, i, trip, trips));
        inputs.push_back(element);
      }
      FUSEC_ASSIGN(const std::vector<Named> outputs,
                   InlineSubgraph(*body_, inputs, state_, scope_));
      state_.builder.set_provenance(provenance);
      std::copy_n(outputs.begin() + kept, carried, state.begin());
      for (size_t i = 0; i < collected.size(); ++i) {
        Value* const* tensor = std::get_if<Value*>(&outputs[kept + carried + i]);
        if (tensor == nullptr) return ModelError("it collects sequences, expected tensors");
        collected[i].push_back(*tensor);
      }
      if (!is_scan) {
        Value* const* condition = std::get_if<Value*>(&outputs[0]);
        if (condition == nullptr) return ModelError("its condition is a sequence");
        FUSEC_ASSIGN(goes_on, Condition(*condition));
      }
    }
    for (int i = 0; i < carried; ++i) {
      if (const auto* sequence = std::get_if<Sequence>(&state[i])) {
        if (!node_.output(i).empty()) scope_.Define(node_.output(i), *sequence);
        results.push_back(nullptr);
      } else {
        results.push_back(std::get<Value*>(state[i]));
      }
    }
    for (size_t i = 0; i < collected.size(); ++i) {
      FUSEC_ASSIGN(Value * stacked, Stacked(collected[i], static_cast<int>(i)));
      results.push_back(stacked);
    }
    return {};
  }

 private:
  Value* Given(int i) const {
    return i < node_.input_size() && !node_.input(i).empty() ? scope_.Get(node_.input(i)) : nullptr;
  }

  // A Loop's first input; the length of the axis that a Scan walks along.
  std::optional<int64_t> Trips() const {
    if (node_.op_type() == "Scan") {
      const int64_t scanned = IntAttribute(node_, "num_scan_inputs");
      if (scanned < 1 || scanned > node_.input_size()) return std::nullopt;
      const int at = node_.input_size() - static_cast<int>(scanned);
      const Value* value = Given(at);
      const int64_t axis =
          value == nullptr ? 0 : Axis(ListedInt(node_, "scan_input_axes", 0), *value);
      if (value == nullptr || axis < 0 || axis >= value->type.rank()) return std::nullopt;
      return value->type.shape[axis].AsConstant();
    }
    const Value* trips = Given(0);
    const auto contents = trips ? KnownContents(trips, state_) : std::nullopt;
    if (!contents || contents->size() != 1) return std::nullopt;
    return (*contents)[0].AsConstant();
  }
  static int64_t Axis(int64_t axis, const Value& value) {
    return axis < 0 ? axis + value.type.rank() : axis;
  }

  // A condition that is absent is true.
  Result<bool> Condition(const Value* value) const {
    if (value == nullptr) return true;
    const std::optional<TensorData> known = KnownTensor(value, state_);
    if (!known || known->element_count() != 1) {
      return ModelError("it may stop on run-time data, which fusec does not support");
    }
    return known->GetInt(0) != 0;
  }

  Value* Constant(Dtype dtype, int64_t number) {
    TensorData data(dtype, {});
    data.SetInt(0, number);
    return state_.builder.Constant(std::move(data));
  }

  // What iteration `trip` gets of scan input `i`, which is input `at` of the node.
  Result<Value*> ScanElement(int at, int i, int64_t trip, int64_t trips) {
    Value* value = Given(at);
    if (value == nullptr) return ModelError("");
    const int64_t axis = Axis(ListedInt(node_, "scan_input_axes", i), *value);
    Shape shape = value->type.shape;
    if (axis < 0 || axis >= value->type.rank() || !shape[axis].IsConstant(trips)) {
      return ModelError(fmt::format("scan input \"{}\" is {}, expected {} elements along axis {}",
                                    node_.input(at), value->type.ToString(), trips, axis));
    }
    const bool backwards = ListedInt(node_, "scan_input_directions", i) != 0;
    Exprs starts(shape.size(), Expr(0));
    starts[axis] = backwards ? trips - 1 - trip : trip;
    shape[axis] = 1;
    Value* slice = state_.builder.Make(
        OpKind::kSlice, {value},
        {{"starts", starts}, {"steps", std::vector<int64_t>(shape.size(), 1)}, {"shape", shape}});
    shape.erase(shape.begin() + axis);
    return state_.builder.Make(OpKind::kReshape, {slice}, {{"shape", shape}});
  }

  // What the iterations gave for output `i` of those that collect, along a new axis.
  Result<Value*> Stacked(ValueList parts, int i) {
    if (parts.empty()) {
      return ModelError(
          "it makes no iteration, so that the shape of what it collects is not known");
    }
    const int64_t given = ListedInt(node_, "scan_output_axes", i);
    const int rank = parts[0]->type.rank() + 1;
    FUSEC_ASSIGN(const int64_t axis, NormalizeAxis(given, rank));
    if (ListedInt(node_, "scan_output_directions", i) != 0)
      std::reverse(parts.begin(), parts.end());
    for (Value*& part : parts) {
      Shape shape = part->type.shape;
      if (axis > static_cast<int64_t>(shape.size())) {
        return ModelError("what it collects differs in rank between iterations");
      }
      shape.insert(shape.begin() + axis, Expr(1));
      part = state_.builder.Make(OpKind::kReshape, {part}, {{"shape", shape}});
    }
    FUSEC_ASSIGN(Node * joined, state_.builder.Add(OpKind::kConcat, parts, {{"axis", axis}}));
    return joined->result();
  }

  const onnx::NodeProto& node_;
  ImportState& state_;
  Scope& scope_;
  const onnx::GraphProto* body_;
};

}  // namespace

bool CanUnroll(const onnx::NodeProto& node, ImportState& state, const Scope& scope) {
  Scope here(&scope);
  return Unroller(node, state, here).CanUnroll();
}

Result<void> Unroll(const onnx::NodeProto& node, ImportState& state, Scope& scope,
                    ValueList& results) {
  return Unroller(node, state, scope).Run(results);
}

}  // namespace fusec
