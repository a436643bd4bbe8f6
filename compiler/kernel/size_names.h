#pragma once

#include "compiler/kernel/kernel_builder.h"
#include "compiler/support/adt.h"

namespace fusec {

// What the numbers of a kernel are called: each after one tensor, axis and role.

// What a kernel calls a tensor, or a value that it never has as a whole.
std::string NameOf(const KernelBuilder& builder, const Value* value);

// The sizes and strides of a row-major tensor called `name` that has `shape`: of all axes from
// `first` on, which make one of its "rows" if `first` is above 0.
std::vector<SizeName> SizesOf(const std::string& name, ShapeRef shape, size_t first = 0);
// The extent of an axis of it, and how many elements the axes from `first` on have.
SizeName ExtentOf(const std::string& name, ShapeRef shape, size_t axis);
SizeName ElementsOf(const std::string& name, ShapeRef shape, size_t first = 0);

// The same in vectors of `lanes` elements of the last axis, which the kernel calls `lanes_name`.
std::vector<SizeName> VectorsOf(const std::string& name, ShapeRef shape, size_t first,
                                int64_t lanes, const CExpr& lanes_name);

// A position in such a tensor, which may be read through `views` of other shapes.
SizeNames PlaceIn(const std::string& name, ShapeRef shape);
SizeNames PlaceIn(const std::string& name, ShapeRef shape, ArrayRef<const Value*> views);
// A position that has come through values of the `path` to it, the nearest first.
SizeNames WithPath(SizeNames names, ArrayRef<const Value*> path);
// A count, such as 16 or batch * 16: of a kernel's elements, or of what `sizes` have.
SizeNames CountOf(const std::string& subject, const std::string& phrase,
                  std::vector<SizeName> sizes = {});
// The number of `size` alone.
SizeNames Only(const SizeName& size);
// The extents of what coordinates `prefix`_0, `prefix`_1, ... count, and what a position in these
// is divided by.
SizeNames CoordinatesOf(const std::string& prefix, ShapeRef dims);

// Where `part` begins, which is stored at `offset` of a `result`.
std::vector<SizeName> PlaceOfPart(const KernelBuilder& builder, const Value* result,
                                  ArrayRef<Expr> offset, const std::string& part);
// The constant that holds element `at` of a constant tensor, or its literal where this speaks for
// itself: small whole numbers.
CExpr NameNumber(KernelBuilder& builder, const Value* constant, int64_t at, const CExpr& literal);

}  // namespace fusec
