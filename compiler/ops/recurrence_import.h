#pragma once

#include "compiler/import/import_context.h"

namespace fusec {

// ONNX's GRU, LSTM and RNN: one product of the inputs of all steps with the weights of all gates
// and directions, and a recurrence (recurrence.cc) that walks through the steps. Directions with
// activations of their own take a recurrence each.
Result<void> ImportRecurrence(ImportContext& context);

}  // namespace fusec
