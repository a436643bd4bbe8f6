#pragma once

#include "compiler/ops/formula.h"

namespace fusec {

// x - zero point in `dtype`; a null zero point is 0.
Value* Centred(Formula& f, Value* x, Value* zero_point, Dtype dtype = Dtype::kI32);
// A scale or zero point of a factor of a product, input `i`: one number, or one per row
// (`as_column`) or column. Null if the input is absent.
Value* OfFactor(const ImportContext& context, Formula& f, int i, bool as_column);

}  // namespace fusec
