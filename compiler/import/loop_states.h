#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "compiler/import/cell_match.h"
#include "compiler/import/cell_reader.h"
#include "compiler/import/recurrent_cell.h"

namespace fusec {

// A state that a loop carries, [batch, units].
struct LoopState {
  Value* before = nullptr;  // around the loop, before the first step
  Value* input = nullptr;   // of the body
  Value* after = nullptr;   // in the body
  Value* last = nullptr;    // around the loop, after the last step
};

// Computes the states of a loop by recurrence nodes, one for each group of states that depend on
// each other. The states of all steps of one group are inputs of the groups behind it, as in
// stacked layers.
class LoopStates {
 public:
  // `is_reverse` tells whether the steps go from the end of the sequences.
  LoopStates(const Graph& body, ImportState& outer, ImportState& inner, StepValues& values,
             Expr steps, bool is_reverse)
      : body_(body),
        outer_(outer),
        inner_(inner),
        values_(values),
        steps_(std::move(steps)),
        is_reverse_(is_reverse) {}

  // Sets `last` of all states. The error says why a group of them is no cell.
  Result<void> Compute(std::vector<LoopState>& states);
  // The values of all steps of `output`, a value of the body, [steps, ...]; null if fusec cannot
  // compute them. Compute must have succeeded.
  Value* AllSteps(Value* output);

 private:
  // The states of one recurrence node.
  struct Group {
    std::vector<LoopState*> states;  // by their numbers in `algebra`
    CellAlgebra algebra;
    std::unique_ptr<CellReader> reader;
    std::vector<Polynomial> next;  // of the states, where the mask is true
    std::optional<int> mask;       // an atom
    MatchedCell cell;
    Value* updates = nullptr;  // of the mask alone
    const Node* node = nullptr;

    Polynomial AtMask(const Polynomial& p, bool is_set) const {
      return mask ? CellAlgebra::Where(p, *mask, is_set) : p;
    }
  };
  // A value of the body that is known for all steps.
  struct Known {
    const LoopState* state;
    // Set if the value is the state's only where the mask is true.
    const Value* mask = nullptr;
  };

  Result<void> ComputeGroup(std::vector<LoopState*> states);
  bool Follows(LoopState& state);
  Result<void> FindMask(Group& group);
  Result<void> MatchGroup(Group& group, RecurrenceInputs& inputs);
  Value* PerStep(const CellFactor& column, const RecurrenceInputs& inputs);
  void Publish(const Group& group);
  Value* Shown(const Group& group, Value* output);

  const Graph& body_;
  ImportState &outer_, &inner_;
  StepValues& values_;
  const Expr steps_;
  const bool is_reverse_;
  std::vector<std::unique_ptr<Group>> groups_;
  DenseMap<const Value*, Known> known_;
};

}  // namespace fusec
