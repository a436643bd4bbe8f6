#include "compiler/import/loop_unroll.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/import/loop_parts.h"
#include "compiler/import/subgraph.h"

namespace fusec {
namespace {

constexpr int64_t kMostTrips = 1024;
constexpr int64_t kMostNodes = 20'000;

class Unroller {
 public:
  Unroller(const onnx::NodeProto& node, const NodeContext& context, ImportState& state,
           Scope& scope)
      : node_(node),
        context_(context),
        state_(state),
        scope_(scope),
        body_(SubgraphOf(node, "body")) {}

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
    FUSEC_ASSIGN(const LoopParts parts, PartsOfLoop(node_, context_));
    const int first = parts.first, carried = parts.carried, kept = parts.kept;
    std::vector<Named> state;
    for (int i = 0; i < carried; ++i) {
      std::optional<Named> found = scope_.Find(node_.input(first + i));
      if (!found) return ModelError("");
      state.push_back(*std::move(found));
    }
    std::vector<ValueList> collected(node_.output_size() - carried);
    const Provenance provenance = state_.builder.provenance();
    bool goes_on = true;
    if (!is_scan) {
      FUSEC_ASSIGN(goes_on, Condition(context_.input(1)));
    }
    const int64_t trips = *Trips();
    for (int64_t trip = 0; goes_on && trip < trips; ++trip) {
      std::vector<Named> inputs;
      if (!is_scan) {
        inputs.push_back(Constant(Dtype::kI64, trip));
        inputs.push_back(Constant(Dtype::kBool, 1));
      }
      inputs.insert(inputs.end(), state.begin(), state.end());
      for (int i = 0; i < parts.scanned; ++i) {
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
      FUSEC_ASSIGN(Value * stacked, Collected(collected[i], static_cast<int>(i)));
      results.push_back(stacked);
    }
    return {};
  }

 private:
  int Scanned() const { return static_cast<int>(context_.Int("num_scan_inputs", 0)); }

  // The trip count: a Loop's first input, or the length of the axis that a Scan iterates over.
  // nullopt if it is not constant.
  std::optional<int64_t> Trips() const {
    if (node_.op_type() == "Scan") {
      const int scanned = Scanned();
      if (scanned < 1 || scanned > node_.input_size()) return std::nullopt;
      const Value* value = context_.input(node_.input_size() - scanned);
      if (value == nullptr) return std::nullopt;
      const int64_t axis = ScanAxis(context_, 0, *value);
      if (axis < 0 || axis >= value->type.rank()) return std::nullopt;
      return value->type.shape[axis].AsConstant();
    }
    const Value* trips = context_.input(0);
    const auto contents = trips ? KnownContents(trips, state_) : std::nullopt;
    if (!contents || contents->size() != 1) return std::nullopt;
    return (*contents)[0].AsConstant();
  }

  // The value of a condition, which must be known. An absent condition is true.
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

  // The element of scan input `i`, which is input `at` of the node, for iteration `trip`.
  Result<Value*> ScanElement(int at, int i, int64_t trip, int64_t trips) {
    Value* value = context_.input(at);
    if (value == nullptr) return ModelError("");
    const int64_t axis = ScanAxis(context_, i, *value);
    if (axis < 0 || axis >= value->type.rank() || !value->type.shape[axis].IsConstant(trips)) {
      return ModelError(fmt::format("scan input \"{}\" is {}, expected {} elements along axis {}",
                                    node_.input(at), value->type.ToString(), trips, axis));
    }
    const bool backwards = ScanAttribute(context_, "scan_input_directions", i) != 0;
    return PartOf(state_.builder, value, axis, backwards ? trips - 1 - trip : trip, 1,
                  /*keeps_axis=*/false);
  }

  // The values of scan output `i` from all iterations, stacked along a new axis.
  Result<Value*> Collected(ValueList parts, int i) {
    if (parts.empty()) {
      return ModelError(
          "it makes no iteration, so that the shape of what it collects is not known");
    }
    if (ScanAttribute(context_, "scan_output_directions", i) != 0)
      std::reverse(parts.begin(), parts.end());
    return Stacked(state_.builder, std::move(parts),
                   ScanAttribute(context_, "scan_output_axes", i));
  }

  const onnx::NodeProto& node_;
  const NodeContext& context_;
  ImportState& state_;
  Scope& scope_;
  const onnx::GraphProto* body_;
};

}  // namespace

bool CanUnroll(const onnx::NodeProto& node, const NodeContext& context, ImportState& state,
               Scope& scope) {
  return Unroller(node, context, state, scope).CanUnroll();
}

Result<void> Unroll(const onnx::NodeProto& node, const NodeContext& context, ImportState& state,
                    Scope& scope, ValueList& results) {
  return Unroller(node, context, state, scope).Run(results);
}

}  // namespace fusec
