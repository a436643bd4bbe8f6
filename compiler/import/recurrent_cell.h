#pragma once

#include "compiler/import/cell_match.h"
#include "compiler/import/step_values.h"

namespace fusec {

// The operands that do not depend on the cell.
struct RecurrenceInputs {
  Expr steps, batch;
  int64_t units = 0;
  bool is_reverse = false;  // whether the steps go from the last to the first
  Dtype dtype = Dtype::kF32;
  Value* state = nullptr;    // [batch, units], before the first step; null: zeros
  Value* cell = nullptr;     // the same for the cell of an LSTM
  Value* updates = nullptr;  // bool [steps, batch]; null: all steps change the state
};

// Adds the recurrence node that computes `cell`. Null, if what the step adds to the gates cannot be
// computed for all steps at once.
Node* AddRecurrence(const MatchedCell& cell, const RecurrenceInputs& inputs, StepValues& values,
                    Builder& builder);

}  // namespace fusec
