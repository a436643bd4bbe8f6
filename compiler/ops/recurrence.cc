// recurrence: the steps of a GRU, LSTM or RNN layer, as ONNX defines them. What the inputs
// contribute to the gates of all steps is an operand; one matrix product computes it beforehand.
//
//   operands  gates      [steps, batch, directions * G * units],
//                        or [batch, steps, ..] if batch_first
//             weights    [directions, units, G * units], by which the state is multiplied
//             bias?      [directions, units], for linear_before_reset
//             lengths?   [batch], steps of each sequence; all steps if absent
//             state?     [directions, batch, units], before the first step; zeros if absent
//             cell?      [directions, batch, units], the same for the cell of an LSTM
//             peepholes? [directions, 3 * units], from the cell of an LSTM to its gates i, o and f
//             updates?   [steps, batch] (or [batch, steps]): of bool; at a step where it is false,
//                        state and cell stay as they were. Or a of the gates' dtype: they become
//                        H + a * (H' - H), where H' is what the step computes, and stay as they
//                        were if a is 0. That makes of a GRU the one with attentional update gate
//                        of DIEN (arXiv:1809.03672, section 4.3). Not together with lengths.
//   results   the states of all steps, [steps, batch, directions * units] (or [batch, steps, ..]),
//             which are 0 after the end of a sequence; the last state and, for an LSTM, the last
//             cell, [directions, batch, units], which are 0 for empty sequences
//
// X is the inputs' part of the gates, R the weights, . a matrix product, and * an elementwise one:
//
//   rnn   H = f(X + H.R)
//   gru   z = f(Xz + H.Rz)    r = f(Xr + H.Rr)    n = g(Xn + (r * H).Rn)    H = (1 - z) * n + z * H
//         linear_before_reset: n = g(Xn + r * (H.Rn + bias))
//   lstm  i = f(Xi + H.Ri + Pi * C)    f = f(Xf + H.Rf + Pf * C), or 1 - i if input_forget
//         C = f * C + i * g(Xc + H.Rc)    o = f(Xo + H.Ro + Po * C)    H = o * h(C)
//
// The arguments of f and g are clipped to -clip..clip, unless clip is 0. The second of two
// directions, or the only one if it is "reverse", goes through each sequence from its end.
#include "compiler/ir/recurrence.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ops/define_op.h"
#include "compiler/ops/fitting_sizes.h"
#include "compiler/ops/recurrence_import.h"
#include "compiler/ops/view_support.h"

namespace fusec {
namespace {

// An error unless operand `i` is absent or has `shape` and `dtype`.
Result<void> CheckOperand(const InferContext& context, int i, const char* what, ShapeRef shape,
                          Dtype dtype) {
  if (!context.has_operand(i)) return {};
  const TensorType& type = context.operand(i);
  const bool is_plural = i == kLengths || i == kPeepholes || i == kUpdates;
  const std::string message =
      fmt::format("the {} {} {}, expected {}", what, is_plural ? "are" : "is", type.ToString(),
                  TensorType{dtype, Shape(shape)}.ToString());
  if (type.dtype != dtype || type.rank() != static_cast<int>(shape.size()))
    return ModelError(message);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (!ProvenEqual(type.shape[axis], shape[axis], context.ranges))
      return SizesDiffer(message, type.shape[axis], shape[axis]);
  }
  return {};
}

Result<void> CheckActivations(const InferContext& context, const CellKind& kind) {
  const auto names = ActivationNames(std::get<std::string>(context.attributes.at("activations")));
  FUSEC_TRY(CheckCount("activations", names.size(), kind.activations.size()));
  for (const char* parameters : {"alphas", "betas"}) {
    const auto& values = std::get<std::vector<double>>(context.attributes.at(parameters));
    FUSEC_TRY(CheckCount(parameters, values.size(), names.size()));
  }
  for (const std::string& name : names) {
    if (FindCellActivation(name) != nullptr) continue;
    return ModelError(
        fmt::format("the activation \"{}\" is none of {}", name, CellActivationNames()));
  }
  return {};
}

// The steps of one row of the batch in one direction.
class Sequence {
 public:
  Sequence(const ReferenceContext& context, int64_t direction, int64_t row)
      : context_(context),
        node_(context.node),
        sizes_(SizesOfRecurrence(node_)),
        activations_(ActivationsOf(node_)),
        direction_(direction),
        row_(row),
        state_(Initial(kInitialState)),
        cell_(Initial(kInitialCell)) {}

  const std::vector<double>& state() const { return state_; }
  const std::vector<double>& cell() const { return cell_; }

  // Computes one step; `gates` points to the inputs' part of its gates. State and cell go the part
  // `weight` of the way.
  void Step(const double* gates, double weight) {
    if (weight == 0) return;
    const std::vector<double> old_state = state_, old_cell = cell_;
    Step(gates);
    if (weight == 1) return;
    for (int64_t u = 0; u < units(); ++u) {
      state_[u] = old_state[u] + weight * (state_[u] - old_state[u]);
      cell_[u] = old_cell[u] + weight * (cell_[u] - old_cell[u]);
    }
  }

 private:
  void Step(const double* gates) {
    if (sizes_.kind->cell == Cell::kGru) return StepGru(gates);
    if (sizes_.kind->cell == Cell::kLstm) return StepLstm(gates);
    std::vector<double> next(units());
    for (int64_t u = 0; u < units(); ++u) next[u] = Activate(0, gates[u] + Product(state_, 0, u));
    state_ = next;
  }
  int64_t units() const { return sizes_.units; }

  std::vector<double> Initial(int operand) const {
    std::vector<double> values(units(), 0.0);
    if (!context_.has_input(operand)) return values;
    const ReferenceTensor& given = context_.input(operand);
    const int64_t at = (direction_ * given.dims[1] + row_) * units();
    std::copy_n(given.reals.begin() + at, units(), values.begin());
    return values;
  }

  // The dot product of `state` with the weights of one unit of a gate.
  double Product(const std::vector<double>& state, int64_t gate, int64_t unit) const {
    const std::vector<double>& weights = context_.input(kWeights).reals;
    double sum = 0;
    for (int64_t k = 0; k < units(); ++k) {
      const int64_t line = (direction_ * units() + k) * sizes_.kind->gates + gate;
      sum += state[k] * weights[line * units() + unit];
    }
    return sum;
  }

  double Clipped(double x) const {
    const double clip = node_.Float("clip");
    return clip == 0 ? x : x > clip ? clip : x < -clip ? -clip : x;
  }
  double Activate(size_t which, double x) const { return activations_[which].Apply(Clipped(x)); }

  void StepGru(const double* gates) {
    const bool linear_before_reset = node_.Int("linear_before_reset") != 0;
    std::vector<double> update(units()), reset(units()), reset_state(units()), next(units());
    for (int64_t u = 0; u < units(); ++u) {
      update[u] = Activate(0, gates[u] + Product(state_, 0, u));
      reset[u] = Activate(0, gates[units() + u] + Product(state_, 1, u));
      reset_state[u] = reset[u] * state_[u];
    }
    for (int64_t u = 0; u < units(); ++u) {
      const double bias =
          context_.has_input(kBias) ? context_.input(kBias).reals[direction_ * units() + u] : 0;
      const double recurrent = linear_before_reset ? reset[u] * (Product(state_, 2, u) + bias)
                                                   : Product(reset_state, 2, u);
      const double candidate = Activate(1, gates[2 * units() + u] + recurrent);
      next[u] = (1 - update[u]) * candidate + update[u] * state_[u];
    }
    state_ = next;
  }

  void StepLstm(const double* gates) {
    // The contribution of the cell to a gate.
    const auto peephole = [&](int64_t gate, int64_t unit) {
      if (!context_.has_input(kPeepholes)) return 0.0;
      const int64_t at = (direction_ * 3 + gate) * units() + unit;
      return context_.input(kPeepholes).reals[at] * cell_[unit];
    };
    std::vector<double> next(units());
    for (int64_t u = 0; u < units(); ++u) {
      const auto sum = [&](int64_t gate) {
        return gates[gate * units() + u] + Product(state_, gate, u);
      };
      const double input = Activate(0, sum(0) + peephole(0, u));
      const double forget =
          node_.Int("input_forget") != 0 ? 1 - input : Activate(0, sum(2) + peephole(2, u));
      cell_[u] = forget * cell_[u] + input * Activate(1, sum(3));
      const double output = Activate(0, sum(1) + peephole(1, u));
      next[u] = output * activations_[2].Apply(cell_[u]);
    }
    state_ = next;
  }

  const ReferenceContext& context_;
  const Node& node_;
  const RecurrenceSizes sizes_;
  const std::vector<ChosenActivation> activations_;
  const int64_t direction_, row_;
  std::vector<double> state_, cell_;
};

}  // namespace

struct RecurrenceOp {
  static constexpr AttributeSpec kAttributes[] = {
      {"cell", "gru|lstm|rnn"}, {"direction", "forward|reverse|bidirectional"},
      {"batch_first", "int"},   {"activations", "text"},
      {"alphas", "floats"},     {"betas", "floats"},
      {"clip", "float"},        {"linear_before_reset", "int"},
      {"input_forget", "int"}};
  static Result<void> Import(ImportContext& context) { return ImportRecurrence(context); }

  static InferResult Infer(const InferContext& context) {
    const TensorType& gates = context.operand(kGates);
    const TensorType& weights = context.operand(kWeights);
    const auto text = [&](const char* name) {
      return std::get<std::string>(context.attributes.at(name));
    };
    const auto kind =
        std::find_if(CellKinds().begin(), CellKinds().end(),
                     [&](const CellKind& known) { return known.name == text("cell"); });
    if (!IsFloat(gates.dtype) || gates.rank() != 3)
      return ModelError(
          fmt::format("the gates are {}, expected floats of rank 3", gates.ToString()));
    const int64_t directions = text("direction") == "bidirectional" ? 2 : 1;
    const auto units = weights.rank() == 3 ? weights.shape[1].AsConstant() : std::nullopt;
    if (!units || *units < 1) {
      return ModelError(
          fmt::format("the weights are {}, expected [{}, units, {} * units] of a known "
                      "number of units",
                      weights.ToString(), directions, kind->gates));
    }
    const bool batch_first = context.Int("batch_first") != 0;
    const RecurrenceSizes sizes{&*kind, directions, *units, gates.shape[batch_first ? 1 : 0],
                                gates.shape[batch_first ? 0 : 1]};
    const Dtype dtype = gates.dtype;
    FUSEC_TRY(CheckOperand(context, kWeights, "weight of the states",
                           {directions, *units, kind->gates * *units}, dtype));
    FUSEC_TRY(CheckOperand(context, kGates, "input of the gates",
                           sizes.PerStep(batch_first, sizes.columns()), dtype));
    FUSEC_TRY(CheckOperand(context, kBias, "recurrent bias", {directions, *units}, dtype));
    const Shape state = {directions, sizes.batch, *units};
    FUSEC_TRY(CheckOperand(context, kInitialState, "initial state", state, dtype));
    FUSEC_TRY(CheckOperand(context, kInitialCell, "initial cell", state, dtype));
    FUSEC_TRY(CheckOperand(context, kPeepholes, "peepholes", {directions, 3 * *units}, dtype));
    FUSEC_TRY(CheckOperand(context, kLengths, "lengths", {sizes.batch}, Dtype::kI32));
    const Shape per_step =
        batch_first ? Shape{sizes.batch, sizes.steps} : Shape{sizes.steps, sizes.batch};
    const bool is_mask =
        context.has_operand(kUpdates) && context.operand(kUpdates).dtype == Dtype::kBool;
    FUSEC_TRY(CheckOperand(context, kUpdates, "updates", per_step, is_mask ? Dtype::kBool : dtype));
    if (context.has_operand(kLengths) && context.has_operand(kUpdates))
      return ModelError("both lengths and updates are given, expected one of them");
    FUSEC_TRY(CheckActivations(context, *kind));
    const bool is_lstm = kind->cell == Cell::kLstm;
    if (!is_lstm && (context.has_operand(kInitialCell) || context.has_operand(kPeepholes)))
      return ModelError("an initial cell or peepholes are given, which only an LSTM has");
    if (context.has_operand(kBias) && context.Int("linear_before_reset") == 0)
      return ModelError("a recurrent bias is given, which only linear_before_reset has");
    const int64_t kept =
        StateBytesPerRow(*kind, *units, context.Int("linear_before_reset") != 0, dtype);
    if (kept > kMostStateBytes) {
      return ModelError(
          fmt::format("{} hidden units are too many: their states take {} bytes of a "
                      "block's shared memory, expected at most {}",
                      *units, kept, kMostStateBytes));
    }
    std::vector<TensorType> results = {{dtype, sizes.PerStep(batch_first, directions * *units)},
                                       {dtype, state}};
    if (is_lstm) results.push_back({dtype, state});
    return results;
  }

  static Result<void> Reference(ReferenceContext& context) {
    const RecurrenceSizes sizes = SizesOfRecurrence(context.node);
    const bool batch_first = context.node.Int("batch_first") != 0;
    const std::string& direction = context.node.Get<std::string>("direction");
    const ReferenceTensor& gates = context.input(kGates);
    const int64_t steps = gates.dims[batch_first ? 1 : 0];
    const int64_t batch = gates.dims[batch_first ? 0 : 1];
    const int64_t columns = sizes.kind->gates * sizes.units;
    const bool has_cell = sizes.kind->cell == Cell::kLstm;
    const auto weight_of = [&](int64_t row_and_time) {
      if (!context.has_input(kUpdates)) return 1.0;
      const ReferenceTensor& updates = context.input(kUpdates);
      return IsFloat(updates.dtype) ? updates.reals[row_and_time]
                                    : static_cast<double>(updates.ints[row_and_time]);
    };
    for (int64_t row = 0; row < batch; ++row) {
      int64_t length = steps;
      if (context.has_input(kLengths)) {
        FUSEC_ASSIGN(length, context.CheckedLength(kLengths, row, steps));
      }
      for (int64_t d = 0; d < sizes.directions; ++d) {
        const bool is_reverse = d == 1 || direction == "reverse";
        Sequence sequence(context, d, row);
        for (int64_t step = 0; step < length; ++step) {
          const int64_t time = is_reverse ? length - 1 - step : step;
          const int64_t row_and_time = batch_first ? row * steps + time : time * batch + row;
          const int64_t place = row_and_time * sizes.directions + d;
          sequence.Step(gates.reals.data() + place * columns, weight_of(row_and_time));
          std::copy(sequence.state().begin(), sequence.state().end(),
                    context.output(0).reals.begin() + place * sizes.units);
        }
        if (length == 0 && context.has_input(kLengths)) continue;
        const int64_t last = (d * batch + row) * sizes.units;
        std::copy(sequence.state().begin(), sequence.state().end(),
                  context.output(1).reals.begin() + last);
        if (has_cell)
          std::copy(sequence.cell().begin(), sequence.cell().end(),
                    context.output(2).reals.begin() + last);
      }
    }
    return {};
  }

  // A length may be at most the number of steps.
  static std::optional<IndexUse> UseOfIndices(const Node& node, int operand) {
    if (operand != kLengths || node.operand(kLengths) == nullptr) return std::nullopt;
    return IndexUse{{SizesOfRecurrence(node).steps + 1}};
  }
};
FUSEC_DEFINE_OP(Recurrence)

}  // namespace fusec
