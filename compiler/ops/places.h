#pragma once

#include "compiler/import/import_context.h"
#include "compiler/ops/formula.h"

namespace fusec {

// The positions in x, row-major, of its elements that are not 0, as rows of a run-time count.
Value* PositionsOfData(ImportContext& context, Value* x, Formula& f);

// A size as a scalar i64.
Value* SizeOf(Formula& f, const Expr& size);

}  // namespace fusec
