#pragma once

#include <optional>
#include <set>

#include "compiler/import/node_context.h"
#include "compiler/ops/formula.h"

namespace fusec {

// The values of one iteration of a loop, which lie in a graph of their own (`body`), and what they
// are in the graph around the loop: values that are the same in all iterations are copied; those
// that depend only on the iteration are computed for all iterations at once, along a new first
// axis.
class StepValues {
 public:
  StepValues(const Graph& body, ImportState& outer, const ImportState& inner, Expr steps)
      : body_(body), outer_(outer), inner_(inner), f_(outer.builder), steps_(std::move(steps)) {}

  // What the inputs of `body` are. Each must be declared before the calls below.
  void DeclareCounter(const Value* input) { counters_.insert(input); }
  void DeclareState(const Value* input) { states_.insert(input); }
  void DeclareInvariant(const Value* input, Value* outside) { copies_[input] = outside; }
  void DeclareElement(const Value* input, Value* sequence) { all_steps_[input] = sequence; }

  // Declares `value` of the body, which depends on a state, to be `sequence` in all steps, so that
  // it no longer counts as depending on it; and takes that back.
  void DeclareComputed(const Value* value, Value* sequence);
  void ForgetComputed(const Value* value);
  bool IsComputed(const Value* value) const { return computed_.contains(value); }

  // Reads all sequences backwards if each of them was reversed before the loop; returns whether it
  // does. AllSteps then has the order from before that, in which the iterations go from the end.
  bool ReadBackwards();

  bool IsCounter(const Value* value) const;
  bool DependsOnState(const Value* value) { return Depends(value).on_state; }
  bool DependsOnStep(const Value* value) { return Depends(value).on_step; }

  // Whether a MatMul or Gemm only multiplies rows by a matrix that is the same in all iterations,
  // and adds a third operand if it has one.
  bool IsByInvariantMatrix(const Node& product);

  // A value that depends on neither, in the graph around the loop.
  Value* Invariant(Value* value);
  // A value that depends on no state, for all iterations: [steps, ...]; null if fusec cannot
  // compute it for all at once.
  Value* AllSteps(Value* value);
  // The column blocks `blocks`, of `width` columns each, of the last axis of AllSteps(value). They
  // are chosen as early as possible, for a matrix product among its weights.
  Value* Columns(Value* value, ArrayRef<int64_t> blocks, int64_t width);
  // The same of a tensor around the loop, along `axis`.
  Value* ColumnsOf(Value* tensor, ArrayRef<int64_t> blocks, int64_t width, int axis);

 private:
  struct Dependence {
    bool on_state = false, on_step = false;
  };
  struct Block {
    ArrayRef<int64_t> numbers;
    int64_t width;
  };

  Dependence Depends(const Value* value);
  Value* Computed(Value* value);
  // A value of all steps with `blocks`, or whole if they are null.
  Value* Part(Value* value, const Block* blocks);
  Value* Pointwise(const Node& node, const Block* blocks);
  Value* Product(const Node& node, const Block* blocks);
  Value* Other(const Node& node);
  bool IsElement(const Node& gather);
  Value* Gathered(const Node& gather);
  // The tensor that `sequence` has in reverse order along its first axis, or null.
  Value* Unreversed(Value* sequence) const;
  // AllSteps of an operand, with axes of size 1 after the steps, so that it has `rank` axes of its
  // own.
  Value* WithRank(Value* all_steps, int rank);

  const Graph& body_;
  ImportState& outer_;
  const ImportState& inner_;
  Formula f_;
  const Expr steps_;
  bool reads_backwards_ = false;
  ValueSet counters_, states_, computed_;
  DenseMap<const Value*, Value*> copies_, all_steps_;
  DenseMap<const Value*, Dependence> dependences_;
};

}  // namespace fusec
