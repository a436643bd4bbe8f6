#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// A recurrence node is one layer of a GRU, LSTM or RNN, in one direction or both. This header is
// shared by its op, its import and its kernel; compiler/ops/recurrence.cc defines what a step
// computes.
enum class Cell { kGru, kLstm, kRnn };

struct CellKind {
  Cell cell;
  const char* name;        // value of the attribute "cell"
  const char* onnx;        // op type
  int64_t gates;           // number of gates, stored side by side in operands in ONNX's order
  const char* gate_names;  // in that order, separated by spaces
  // Default activations: functions f, g and h of ONNX's formulas, as many as the cell has.
  std::vector<std::string> activations;
};
const std::vector<CellKind>& CellKinds();

// A function that a cell may apply to its gates, by its ONNX name.
struct CellActivation {
  const char* name;
  // Which parameters it has, and their defaults; nullopt: the model must give a value.
  bool has_alpha, has_beta;
  std::optional<double> alpha, beta;
  double (*apply)(double x, double alpha, double beta);
  // The same as C text: {x} is a local variable, {f} the suffix of float functions and literals.
  const char* formula;
  const char* device_file;  // the file of codegen_templates/device that it needs, or null
};
const CellActivation* FindCellActivation(const std::string& name);
std::string CellActivationNames();  // for messages

// Operands of a recurrence node, in this order; those from kBias on may be absent.
enum RecurrenceOperand {
  kGates,
  kWeights,
  kBias,
  kLengths,
  kInitialState,
  kInitialCell,
  kPeepholes,
  kUpdates,
  kRecurrenceOperands
};

struct RecurrenceSizes {
  const CellKind* kind;
  int64_t directions, units;
  Expr steps, batch;

  Expr columns() const { return directions * kind->gates * units; }
  // The shape of a tensor with the leading dims of `gates` and `columns` columns.
  Shape PerStep(bool batch_first, const Expr& columns) const {
    return batch_first ? Shape{batch, steps, columns} : Shape{steps, batch, columns};
  }
};
// The sizes of a node that has passed its op's Infer.
RecurrenceSizes SizesOfRecurrence(const Node& node);

// An activation of a node, with its parameters.
struct ChosenActivation {
  const CellActivation* function;
  double alpha, beta;

  double Apply(double x) const { return function->apply(x, alpha, beta); }
};
std::vector<ChosenActivation> ActivationsOf(const Node& node);
std::vector<std::string> ActivationNames(const std::string& text);  // splits "Sigmoid Tanh"

// Bytes of shared memory for one row of the batch: the hidden state before and after a step, an
// LSTM's cell, and, for a GRU that resets the state before multiplying it, what the two halves of a
// step exchange.
int64_t StateBytesPerRow(const CellKind& kind, int64_t units, bool linear_before_reset,
                         Dtype dtype);
// Whether an initial state is known to be all zeros, as the default ones of exporters are, which they
// expand to the batch. Large constants are not examined.
bool IsZeroState(const Value* value);
// The most bytes that a block keeps in shared memory.
inline constexpr int64_t kMostStateBytes = 48 * 1024;

}  // namespace fusec
