#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Makes rounding to f16 and bf16 explicit, for --round-every-op. A fused kernel computes half types
// in f32 and rounds what it stores; the unfused graph stores, and rounds, every result:
//
//   %a = mul(%x, %y) : f16[n]              %a = mul(%x, %y) : f16[n]
//   %b = add(%a, %z) : f16[n]        =>    %a_wide = cast(%a) {to = f32} : f32[n]
//                                          %a_rounded = cast(%a_wide) {to = f16} : f16[n]
//                                          %b = add(%a_rounded, %z) : f16[n]
//
// The cast to the half type rounds in fused kernels, too. Ops that only choose or copy operands
// need no rounding, and an output is rounded when it is stored. The pass runs early, so that a
// composite op counts as one op and no later pass changes what is rounded.
Result<bool> RoundEveryOp(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
