#pragma once

#include <functional>
#include <string>

#include "compiler/ir/op_def.h"
#include "compiler/kernel/kernel_builder.h"
#include "compiler/region/reducers.h"
#include "compiler/support/adt.h"

namespace fusec {

// The operation of a reduction: its initial value, how it adds an element to the total, and how the
// totals of threads are combined.
struct Fold {
  CExpr start;
  std::string how;  // the name in block_reduce.cuh
  std::function<CExpr(const CExpr& total, const CExpr& element)> step;
  bool calls_how = false;  // whether `step` calls `how`
  std::string simd;        // name in OpenMP or simd_reduce.cuh; "": lanes cannot be reduced
};

Fold FoldOf(OpKind kind, Dtype dtype);
// Writes the combination of two values of `dtype` by `how` of block_reduce.cuh. For integers
// narrower than int, the template argument is explicit, because their literals and sums are ints.
CExpr Combined(const std::string& how, Dtype dtype, const CExpr& a, const CExpr& b);

// A fold that is written as nested loops over `dims`, or as one loop from `first` to `last` (of at
// most dims[0] entries), for the element at `index`.
struct FoldLoop {
  Fold fold;
  Dtype dtype;
  std::string name;
  Shape dims;
  std::vector<SizeNames> sizes;  // the names of the dims; unused if `last` is given
  CExpr first, last;             // if empty: 0 and the extent
  Exprs index;
  bool side_by_side = false;  // whether a CPU folds consecutive entries in SIMD lanes
};
// The names of the variables of these loops begin with it.
inline constexpr const char* kFoldVariable = "entry";
CExpr WriteFold(KernelBuilder& builder, const FoldLoop& loop,
                function_ref<Scalar(ArrayRef<Expr> k)> element);

class RegionLowering;

// Writes a loop in which one thread computes element `index` of a reduction, and returns the
// element.
Scalar FoldSerially(RegionLowering& lowering, const Node& reduction, ArrayRef<Expr> index);

// The names in the number of elements that a reduction or a matrix product reduces to one element,
// counted in vectors of `lanes` (the name of a constant) if that is not empty.
SizeNames LengthOf(const Node& reducer, const CExpr& lanes = {});

// Writes the mean of a ReduceMean: `total`, the sum of `count` elements, divided by the count.
// `names` are the names in `count`.
CExpr WriteMean(KernelBuilder& builder, const Node& reducer, const CExpr& total, const Expr& count,
                const SizeNames& names);

}  // namespace fusec
