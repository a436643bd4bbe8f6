#pragma once

#include <optional>

#include "compiler/kernel/region_lowering.h"

namespace fusec {

// Inside a loop over lanes: if element `index` of `value` is computed from 4-bit codes
// (unpack_int4, cast to floats) and consecutive lanes need consecutive codes, writes one load of
// all their bytes in front of the loop, and one function call that makes floats of them. Else does
// nothing; each lane then reads its byte. Values behind the codes must not be needed at another
// index.
void ReadCodes(RegionLowering& lowering, const Value* value, Exprs index);

// Weights (code - zero) * scale, where all zero points are known to be integers from 0 to 1023.
struct DequantizedPack {
  CExpr packed, zero, scale;  // locals: the bytes of the codes, and floats
};
// Writes the loads for `lanes` consecutive elements of `value` from `index` on, whose last
// coordinate is a multiple of `lanes`; these share the zero point and the scale. nullopt, and
// nothing is written, if `value` is not of that form, or if the elements do not share them.
std::optional<DequantizedPack> ReadDequantizedPack(RegionLowering& lowering, const Value* value,
                                                   const Exprs& index, int64_t lanes,
                                                   const CExpr& lanes_name);

}  // namespace fusec
