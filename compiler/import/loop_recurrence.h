#pragma once

#include "compiler/import/graph_import.h"

namespace fusec {

// Replaces a Loop or Scan that goes through sequences step by step by nodes that compute all steps:
// one that carries no state, whose steps are independent of each other (TensorFlow's map_fn), and
// one whose steps are those of a GRU, LSTM or RNN, by a recurrence node
// (compiler/ops/recurrence.cc). TensorFlow's exporter writes Keras's recurrent layers as such
// loops, unless it recognizes them itself:
//
//   for t in 0..steps-1: h = where(mask[t], cell(x[t], h), h);  y[t] = h
//
// What a step computes from x[t] alone, or from the new state alone, is computed for all steps at
// once. The cell is recognized by its algebra (cell_algebra.h), whatever the order of its sums,
// products and columns. Several cells in one step become one recurrence each (loop_states.h). A
// mask is one boolean for each step and row, and a weight one number; with a weight a[t],
// h = h + a[t] * (cell(x[t], h) - h). Where a mask is false, the loop multiplies by zero what the
// recurrence does not compute; that is the same as long as it is finite.
//
// If the loop is anything else, nothing is added to `results`, and the error says why, or nothing
// if the loop carries no state.
Result<void> ImportRecurrentLoop(const onnx::NodeProto& node, const NodeContext& context,
                                 ImportState& state, Scope& scope, ValueList& results);

}  // namespace fusec
