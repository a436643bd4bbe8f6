#pragma once

#include "compiler/driver/verify/onnxruntime_judge.h"
#include "compiler/driver/verify/verify_subject.h"

namespace fusec {

// The inputs of the model itself that correspond to `inputs` of the subject's program: without
// inputs that the model does not have, with those that were frozen, and with a row for each item in
// inputs that the program takes once per request.
NamedTensors ModelInputs(const Subject& subject, const Inputs& inputs, const DimValues& dims);

}  // namespace fusec
