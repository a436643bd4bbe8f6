#pragma once

#include "compiler/driver/verify/onnxruntime_judge.h"
#include "compiler/driver/verify/verify_subject.h"

namespace fusec {

// What the model itself takes, where the program of the subject takes `inputs`: without inputs that
// the model lacks, with those that were frozen, and with a row for each item where the program has
// one per request.
NamedTensors ModelInputs(const Subject& subject, const Inputs& inputs, const DimValues& dims);

}  // namespace fusec
