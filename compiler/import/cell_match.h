#pragma once

#include <string>

#include "compiler/import/cell_algebra.h"
#include "compiler/ir/recurrence.h"

namespace fusec {

// A column block of a tensor, times a factor; block -1 is one column that all units share.
struct GateTerm {
  Value* value;
  int64_t block;
  bool is_invariant;
  double factor;
};

// The argument of a gate's activation: terms, a number, and a column block of a product of the
// state.
struct GateSum {
  std::vector<GateTerm> terms;
  double number = 0;
  const Node* product = nullptr;  // null: the state does not contribute
  int64_t product_block = 0;
  double product_factor = 1;
};

// A cell that a recurrence node can compute.
struct MatchedCell {
  const CellKind* kind = nullptr;
  std::string activations;
  std::vector<double> alphas, betas;  // of the activations
  std::vector<GateSum> gates;         // in the order of the kind
  bool linear_before_reset = false;
  std::vector<GateTerm> reset_bias;  // invariants that the reset gate multiplies as well
  int state = 0, cell = 0;           // the numbers of the states; `cell` of an LSTM
};

// The cell whose states become `next`, one polynomial per state. The first atoms of `algebra` are
// the states, in the same order. nullopt if it is none of recurrence.h's cells.
std::optional<MatchedCell> MatchCell(const CellAlgebra& algebra,
                                     const std::vector<Polynomial>& next);

}  // namespace fusec
