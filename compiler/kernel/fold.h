#pragma once

#include <functional>
#include <string>

#include "compiler/ir/op_def.h"
#include "compiler/kernel/kernel_builder.h"
#include "compiler/region/reducers.h"
#include "compiler/support/adt.h"

namespace fusec {

// How a reduction starts, folds in an element, and folds the threads of a block.
struct Fold {
  CExpr start;
  std::string how;  // of block_reduce.cuh
  std::function<CExpr(const CExpr& total, const CExpr& element)> step;
  bool calls_how = false;  // `step` does
  std::string simd;  // that lanes fold by, as OpenMP or simd_reduce.cuh call it; "": they cannot
};

Fold FoldOf(OpKind kind, Dtype dtype);
// Two values of `dtype` made one by `how` of block_reduce.cuh. Integers narrower than int say their
// type, as literals and sums of them are ints.
CExpr Combined(const std::string& how, Dtype dtype, const CExpr& a, const CExpr& b);

// Writes a fold as a loop where it is needed: `dims` are its loops' extents, or the one loop goes
// from `first` to `last` (of at most dims[0] entries), for the element at `index`. Returns the
// total.
struct FoldLoop {
  Fold fold;
  Dtype dtype;
  std::string name;
  Shape dims;
  std::vector<SizeNames> sizes;  // what the dims are called; not read where `last` is given
  CExpr first, last;             // none: 0 and the extent
  Exprs index;
};
CExpr WriteFold(KernelBuilder& builder, const FoldLoop& loop,
                function_ref<Scalar(ArrayRef<Expr> k)> element);

class RegionLowering;

// Element `index` of a reduction, folded by one thread in a loop that stands where it is needed.
Scalar FoldSerially(RegionLowering& lowering, const Node& reduction, ArrayRef<Expr> index);

// What a reduction, or a product of matrices, reduces to one element; in vectors of `lanes`, if
// that is a constant's name.
SizeNames LengthOf(const Node& reducer, const CExpr& lanes = {});

// Divides `total`, the sum that a ReduceMean folded over `count` elements, which `names` name.
CExpr WriteMean(KernelBuilder& builder, const Node& reducer, const CExpr& total, const Expr& count,
                const SizeNames& names);

}  // namespace fusec
