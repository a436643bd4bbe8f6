#pragma once

#include "compiler/import/import_context.h"

namespace fusec {

// Imports ONNX's GRU, LSTM and RNN: a single product of the inputs of all steps with the weights of
// all gates and directions, followed by a recurrence op (recurrence.cc) that runs the steps.
// Directions with different activations get one recurrence op each.
Result<void> ImportRecurrence(ImportContext& context);

}  // namespace fusec
