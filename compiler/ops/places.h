#pragma once

#include "compiler/import/import_context.h"
#include "compiler/ops/formula.h"

namespace fusec {

// The row-major positions of the nonzero elements of x, as a vector whose size is a run-time count.
Value* PositionsOfData(ImportContext& context, Value* x, Formula& f);

// A size as a scalar i64.
Value* SizeOf(Formula& f, const Expr& size);

}  // namespace fusec
