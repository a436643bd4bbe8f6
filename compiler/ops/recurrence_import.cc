#include "compiler/ops/recurrence_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/ir/element_sources.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/recurrence.h"
#include "compiler/ops/fitting_sizes.h"
#include "compiler/ops/formula.h"
#include "compiler/ops/view_support.h"

namespace fusec {
namespace {

// Inputs of the ONNX ops.
enum OnnxInput { kX, kW, kR, kB, kSequenceLens, kInitialH, kInitialC, kP };

// If views made x by exchanging the first two axes of a tensor, that tensor, else null. PyTorch's
// batch_first layers transpose before an ONNX op that is not batch-first, and transpose back after
// it.
Value* BeforeTransposition(Value* x, Formula& f, Ranges ranges) {
  const Shape& shape = x->type.shape;
  const Shape exchanged = {shape[1], shape[0], shape[2]};
  Exprs index = AnyIndex(shape, ranges);
  const Expr place = Linearize({index[1], index[0], index[2]}, exchanged, ranges);
  if (place == Linearize(index, shape, ranges)) return nullptr;
  const Value* value = x;
  while (value->producer != nullptr && GetOpDef(value->producer->kind).op_class == OpClass::kView) {
    const auto sources =
        ElementSources(*value->producer, value->result_index, index, ranges, NoIndexIsKnown);
    if (!sources || sources->size() != 1 || sources->front().operand < 0) return nullptr;
    Value* from = value->producer->operand(sources->front().operand);
    index = sources->front().index;
    if (from->type.ElementCount() == x->type.ElementCount() &&
        Linearize(index, from->type.shape, ranges) == place)
      return f.Reshape(from, exchanged);
    value = from;
  }
  return nullptr;
}

class RecurrenceImport {
 public:
  explicit RecurrenceImport(ImportContext& context)
      : context_(context), f_(context.builder()), kind_(KindOf(context.onnx_op())) {}

  Result<void> Import() {
    FUSEC_TRY(ReadAttributes());
    FUSEC_TRY(ReadActivations());
    FUSEC_TRY(ReadSizes());
    x_ = context_.input(kX);
    if (!batch_first_) {
      if (Value* before = BeforeTransposition(x_, f_, context_.ranges())) {
        x_ = before;
        batch_first_ = true;
      }
    }
    // Directions with different activations cannot share a kernel.
    if (directions_ == 2 && !(activations_[0] == activations_[1])) {
      FUSEC_ASSIGN(const ValueList forward, AddSteps(0, 1, "forward"));
      FUSEC_ASSIGN(const ValueList backward, AddSteps(1, 1, "reverse"));
      ValueList both = {f_.Concat({forward[0], backward[0]}, 2)};
      for (size_t i = 1; i < forward.size(); ++i)
        both.push_back(f_.Concat({forward[i], backward[i]}, 0));
      return SetOutputs(both);
    }
    FUSEC_ASSIGN(const ValueList results, AddSteps(0, directions_, direction_));
    return SetOutputs(results);
  }

 private:
  // The activations of one direction, in ONNX's spelling.
  struct Activations {
    std::string names;
    std::vector<double> alphas, betas;
    bool operator==(const Activations&) const = default;
  };

  static const CellKind& KindOf(const std::string& op) {
    return *std::find_if(CellKinds().begin(), CellKinds().end(),
                         [&](const CellKind& known) { return known.onnx == op; });
  }

  Value* Input(int i) const { return i < context_.input_count() ? context_.input(i) : nullptr; }

  Result<void> ReadAttributes() {
    direction_ = context_.String("direction", "forward");
    if (direction_ != "forward" && direction_ != "reverse" && direction_ != "bidirectional") {
      return context_.Fail(
          fmt::format("direction is \"{}\", expected \"forward\", \"reverse\" or \"bidirectional\"",
                      direction_));
    }
    directions_ = direction_ == "bidirectional" ? 2 : 1;
    layout_ = context_.Int("layout", 0);
    if (layout_ != 0 && layout_ != 1)
      return context_.Fail(fmt::format("layout is {}, expected 0 or 1", layout_));
    batch_first_ = layout_ == 1;
    clip_ = context_.Float("clip", 0);
    if (std::isinf(clip_)) clip_ = 0;
    if (clip_ < 0) return context_.Fail(fmt::format("clip is {}, expected 0 or more", clip_));
    linear_before_reset_ = kind_.cell == Cell::kGru && context_.Int("linear_before_reset", 0) != 0;
    input_forget_ = kind_.cell == Cell::kLstm && context_.Int("input_forget", 0) != 0;
    return {};
  }

  // As in onnxruntime, each function that has a parameter takes the next value of the parameter's
  // list.
  Result<void> ReadActivations() {
    std::vector<std::string> names = context_.Strings("activations");
    const size_t count = kind_.activations.size();
    if (names.empty()) {
      for (int64_t d = 0; d < directions_; ++d)
        names.insert(names.end(), kind_.activations.begin(), kind_.activations.end());
    }
    if (names.size() != count * directions_) {
      return context_.Fail(
          fmt::format("activations has {} values, expected {}", names.size(), count * directions_));
    }
    const std::vector<double> lists[] = {context_.Floats("activation_alpha"),
                                         context_.Floats("activation_beta")};
    size_t taken[] = {0, 0};
    for (size_t i = 0; i < names.size(); ++i) {
      const CellActivation* function = FindCellActivation(names[i]);
      if (function == nullptr) {
        return context_.Fail(
            fmt::format("the activation \"{}\" is none of {}", names[i], CellActivationNames()));
      }
      if (i % count == 0) activations_.emplace_back();
      Activations& chosen = activations_.back();
      chosen.names += (i % count == 0 ? "" : " ") + names[i];
      for (const int which : {0, 1}) {
        const bool has_one = which == 0 ? function->has_alpha : function->has_beta;
        std::optional<double> value = which == 0 ? function->alpha : function->beta;
        if (has_one && taken[which] < lists[which].size()) value = lists[which][taken[which]++];
        if (has_one && !value) {
          return context_.Fail(fmt::format("the activation {} needs a value of {}", names[i],
                                           which == 0 ? "activation_alpha" : "activation_beta"));
        }
        (which == 0 ? chosen.alphas : chosen.betas).push_back(value.value_or(0));
      }
    }
    return {};
  }

  // An error unless input `i` has `shape`.
  Result<void> CheckShape(int i, const char* name, ShapeRef shape) const {
    const Value* value = Input(i);
    if (value == nullptr) return {};
    const std::string message = fmt::format("{} is {}, expected {}{}", name, value->type.ToString(),
                                            DtypeName(Input(kX)->type.dtype), ShapeText(shape));
    if (value->type.rank() != static_cast<int>(shape.size()) ||
        value->type.dtype != Input(kX)->type.dtype)
      return context_.Fail(message);
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (!ProvenEqual(value->type.shape[axis], shape[axis], context_.ranges()))
        return SizesDiffer(message, value->type.shape[axis], shape[axis]);
    }
    return {};
  }

  Result<void> ReadSizes() {
    const TensorType& x = Input(kX)->type;
    const TensorType& r = Input(kR)->type;
    if (x.rank() != 3) return context_.Fail(fmt::format("X is {}, expected rank 3", x.ToString()));
    const auto units = r.rank() == 3 ? r.shape[2].AsConstant() : std::nullopt;
    units_ = context_.Int("hidden_size", units.value_or(0));
    if (!context_.Has("hidden_size") && !units)
      return context_.Fail(fmt::format("hidden_size is missing, and R is {}", r.ToString()));
    if (units_ < 1)
      return context_.Fail(fmt::format("hidden_size is {}, expected 1 or more", units_));
    const Expr columns = kind_.gates * units_;
    FUSEC_TRY(CheckShape(kR, "R", {directions_, columns, units_}));
    FUSEC_TRY(CheckShape(kW, "W", {directions_, columns, x.shape[2]}));
    FUSEC_TRY(CheckShape(kB, "B", {directions_, columns * 2}));
    FUSEC_TRY(CheckShape(kP, "P", {directions_, 3 * units_}));
    const Expr batch = x.shape[layout_ == 1 ? 0 : 1];
    const Shape state =
        layout_ == 1 ? Shape{batch, directions_, units_} : Shape{directions_, batch, units_};
    FUSEC_TRY(CheckShape(kInitialH, "initial_h", state));
    return CheckShape(kInitialC, "initial_c", state);
  }

  // For layout 1, converts [batch, directions, units] to [directions, batch, units], or back.
  Value* ExchangeIfBatchFirst(Value* state) {
    if (layout_ == 0) return state;
    const Shape& shape = state->type.shape;
    if (directions_ == 1) return f_.Reshape(state, {shape[1], shape[0], shape[2]});
    return f_.Transpose(state, {1, 0, 2});
  }

  // The sum of the input bias and the state bias. A GRU with linear_before_reset multiplies the
  // state's part of its candidate by the reset gate after adding the bias, so that part of the
  // state bias is left to the steps and returned in `of_state`.
  Value* BiasOf(int64_t first, int64_t count, Value** of_state) {
    if (Input(kB) == nullptr) return nullptr;
    const int64_t columns = kind_.gates * units_;
    Value* both = f_.Slice(Input(kB), 0, first, count);
    Value* of_inputs = f_.Slice(both, 1, 0, columns);
    Value* recurrent = f_.Slice(both, 1, columns, columns);
    if (!linear_before_reset_) return f_.Reshape(f_.Add(of_inputs, recurrent), {count * columns});
    const int64_t others = columns - units_;
    *of_state = f_.Slice(recurrent, 1, others, units_, 1, "state_bias");
    Value* sum = f_.Add(f_.Slice(of_inputs, 1, 0, others), f_.Slice(recurrent, 1, 0, others));
    return f_.Reshape(f_.Concat({sum, f_.Slice(of_inputs, 1, others, units_)}, 1),
                      {count * columns});
  }

  // Adds the recurrence op of `count` directions, from `first` on.
  Result<ValueList> AddSteps(int64_t first, int64_t count, const std::string& direction) {
    const int64_t columns = kind_.gates * units_;
    const auto of_directions = [&](int input, bool is_state = false) -> Value* {
      Value* value = Input(input);
      if (value == nullptr || (is_state && IsZeroState(value))) return nullptr;
      return f_.Slice(is_state ? ExchangeIfBatchFirst(value) : value, 0, first, count);
    };
    Value* of_state = nullptr;
    Value* bias = BiasOf(first, count, &of_state);
    Value* weights = f_.Reshape(of_directions(kW), {count * columns, x_->type.shape[2]});
    Builder& builder = context_.builder();
    Value* gates = builder.Make(OpKind::kMatMul, {x_, weights},
                                {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{1}}},
                                bias == nullptr ? "gates" : "products");
    if (bias != nullptr) gates = builder.Make(OpKind::kAdd, {gates, bias}, {}, "gates");
    const std::vector<int64_t> by_unit = {0, 2, 1};
    ValueList operands = {
        gates,
        builder.Make(OpKind::kTranspose, {of_directions(kR)}, {{"perm", by_unit}}, "state_weights"),
        of_state,
        Input(kSequenceLens),
        of_directions(kInitialH, true),
        of_directions(kInitialC, true),
        of_directions(kP)};
    while (operands.back() == nullptr) operands.pop_back();
    const Activations& activations = activations_[first];
    FUSEC_ASSIGN(Node * node, builder.Add(OpKind::kRecurrence, operands,
                                          {{"cell", std::string(kind_.name)},
                                           {"direction", direction},
                                           {"batch_first", int64_t{batch_first_}},
                                           {"activations", activations.names},
                                           {"alphas", activations.alphas},
                                           {"betas", activations.betas},
                                           {"clip", clip_},
                                           {"linear_before_reset", int64_t{linear_before_reset_}},
                                           {"input_forget", int64_t{input_forget_}}}));
    ValueList results;
    for (const auto& result : node->results) results.push_back(result.get());
    return results;
  }

  // Converts to ONNX's layout, which has an axis of directions: [steps, directions, batch, units]
  // or, for layout 1, [batch, steps, directions, units].
  Value* Apart(Value* states) {
    const Shape& shape = states->type.shape;
    if (layout_ == 1) return f_.Reshape(states, {shape[0], shape[1], directions_, units_});
    if (directions_ == 1) {
      Value* by_step = batch_first_ ? f_.Transpose(states, {1, 0, 2}) : states;
      const Shape& steps = by_step->type.shape;
      return f_.Reshape(by_step, {steps[0], Expr(1), steps[1], units_});
    }
    Value* apart = f_.Reshape(states, {shape[0], shape[1], directions_, units_});
    return batch_first_ ? f_.Transpose(apart, {1, 2, 0, 3}) : f_.Transpose(apart, {0, 2, 1, 3});
  }

  Result<void> SetOutputs(ArrayRef<Value*> results) {
    for (int i = 0; i < std::min<int>(context_.output_count(), results.size()); ++i) {
      if (!context_.output_used(i)) continue;
      context_.SetOutput(i, i == 0 ? Apart(results[0]) : ExchangeIfBatchFirst(results[i]));
    }
    return {};
  }

  ImportContext& context_;
  Formula f_;
  const CellKind& kind_;
  std::string direction_;
  int64_t directions_ = 1, units_ = 0, layout_ = 0;
  bool batch_first_ = false;  // layout of the recurrence op's operands and results
  bool linear_before_reset_ = false, input_forget_ = false;
  double clip_ = 0;
  std::vector<Activations> activations_;  // by direction
  Value* x_ = nullptr;
};

}  // namespace

Result<void> ImportRecurrence(ImportContext& context) { return RecurrenceImport(context).Import(); }

}  // namespace fusec
