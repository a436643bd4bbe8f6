#pragma once

#include "compiler/import/import_context.h"
#include "compiler/ops/formula.h"

namespace fusec {

// Rounds floats to the nearest number of a narrow type, ties to even; the result is f32. If it
// `saturates`, greater magnitudes and infinities become the greatest finite number, and otherwise
// infinities or, in a type without any, NaN. A NaN stays NaN. (ONNX, Cast: the tables for float 8)
Value* RoundedTo(Formula& f, Value* x, const NarrowType::Layout& layout, bool saturates);

// Imports a Cast or CastLike to a narrow type. Integers wrap to its bits, as in casts to wider
// integers.
Result<void> ImportNarrowCast(ImportContext& context, const NarrowType& type);

}  // namespace fusec
