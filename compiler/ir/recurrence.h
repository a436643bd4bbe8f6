#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// What the steps of a recurrence node are: one layer of a GRU, LSTM or RNN, in one direction or
// both. Its op, its import and its kernel share what is here; compiler/ops/recurrence.cc says what
// a step computes.
enum class Cell { kGru, kLstm, kRnn };

struct CellKind {
  Cell cell;
  const char* name;        // of the attribute "cell"
  const char* onnx;        // op type
  int64_t gates;           // that stand side by side in operands, as ONNX orders them
  const char* gate_names;  // in this order, separated by spaces
  // Functions f, g and h of ONNX's formulas, as far as the cell has them.
  std::vector<std::string> activations;
};
const std::vector<CellKind>& CellKinds();

// A function that a cell may apply to its gates, called as ONNX calls it.
struct CellActivation {
  const char* name;
  // Which parameters it has, and what they are where a model gives none; nullopt: it must.
  bool has_alpha, has_beta;
  std::optional<double> alpha, beta;
  double (*apply)(double x, double alpha, double beta);
  // The same in C, of a local {x}; {f} is the suffix of float functions and literals.
  const char* formula;
  const char* device_file;  // that it calls, or null
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
  kRecurrenceOperands
};

struct RecurrenceSizes {
  const CellKind* kind;
  int64_t directions, units;
  Expr steps, batch;

  Expr columns() const { return directions * kind->gates * units; }
  // Of a tensor with the leading dims of `gates`.
  Shape PerStep(bool batch_first, const Expr& columns) const {
    return batch_first ? Shape{batch, steps, columns} : Shape{steps, batch, columns};
  }
};
// Of a node that its op's Infer has accepted.
RecurrenceSizes SizesOfRecurrence(const Node& node);

// The activations that a node names, with the parameters of each.
struct ChosenActivation {
  const CellActivation* function;
  double alpha, beta;

  double Apply(double x) const { return function->apply(x, alpha, beta); }
};
std::vector<ChosenActivation> ActivationsOf(const Node& node);
std::vector<std::string> ActivationNames(const std::string& text);  // "Sigmoid Tanh"

// Shared memory that a kernel keeps of one row of the batch: the hidden state before and behind a
// step, an LSTM's cell, and what the two halves of a GRU's step hand over where it resets the state
// before it multiplies it.
int64_t StateBytesPerRow(const CellKind& kind, int64_t units, bool linear_before_reset,
                         Dtype dtype);
// A block keeps no more than this in shared memory.
inline constexpr int64_t kMostStateBytes = 48 * 1024;

}  // namespace fusec
