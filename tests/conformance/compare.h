#pragma once

#include <optional>
#include <string>

#include "compiler/ir/tensor.h"

namespace fusec {

// What is wrong with a result, or nullopt. Dtype and dims must be the same. Floats may differ as in ONNX's own runner: |found - expected|
// <= atol + rtol * |expected| with rtol 1e-3 and atol 1e-7, and NaN equals NaN. For f16 and bf16, whose neighboring numbers have relative
// distances of up to 2^-10 and 2^-7, rtol is twice that distance.
std::optional<std::string> Difference(const TensorData& found, const TensorData& expected);

}  // namespace fusec
