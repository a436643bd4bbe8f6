#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Exporters without a Gelu op spell it out (Hendrycks and Gimpel 2016). This pass replaces it by
// the op gelu, which libraries have as an epilogue and which readers recognise:
//
//   0.5 x (1 + erf(x / sqrt(2)))                              =>   gelu(%x) {approximate = "none"}
//   0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))         =>   gelu(%x) {approximate = "tanh"}
//
// in any order of factors and terms. Constants may differ from these by the rounding of their
// dtype.
Result<bool> RecognizeGelu(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
