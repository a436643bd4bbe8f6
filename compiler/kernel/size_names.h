#pragma once

#include "compiler/kernel/kernel_builder.h"
#include "compiler/support/adt.h"

namespace fusec {

// The names of the numbers of a kernel: each is named after one tensor, axis and role.

// The name of a tensor, or of a value that is never stored as a whole, in a kernel.
std::string NameOf(const KernelBuilder& builder, const Value* value);

// The sizes and strides of the axes from `first` on of a row-major tensor called `name`. If `first`
// is above 0, these axes form one of its "rows".
std::vector<SizeName> SizesOf(const std::string& name, ShapeRef shape, size_t first = 0);
// The extent of an axis of the tensor, and the number of elements of its axes from `first` on.
SizeName ExtentOf(const std::string& name, ShapeRef shape, size_t axis);
SizeName ElementsOf(const std::string& name, ShapeRef shape, size_t first = 0);

// The same as SizesOf, counted in vectors of `lanes` elements of the last axis; `lanes_name` is the
// name of `lanes`.
std::vector<SizeName> VectorsOf(const std::string& name, ShapeRef shape, size_t first,
                                int64_t lanes, const CExpr& lanes_name);

// The names in a position in such a tensor, which may be read through `views` of other shapes.
SizeNames PlaceIn(const std::string& name, ShapeRef shape);
SizeNames PlaceIn(const std::string& name, ShapeRef shape, ArrayRef<const Value*> views);
// Adds the names in a position that was computed through the values of `path`, the nearest first.
SizeNames WithPath(SizeNames names, ArrayRef<const Value*> path);
// The names in a count, such as 16 or batch * 16, of things called `subject`; `phrase` completes
// its comment, and `sizes` name factors of it.
SizeNames CountOf(const std::string& subject, const std::string& phrase,
                  std::vector<SizeName> sizes = {});
// The names in an expression whose only number is `size`.
SizeNames Only(const SizeName& size);
// The names of the extents of the coordinates `prefix`_0, `prefix`_1, ..., and of the divisors that
// compute them from a position.
SizeNames CoordinatesOf(const std::string& prefix, ShapeRef dims);

// The names of the offset at which `part` begins in `result`; `offset` are the coordinates of its
// first element.
std::vector<SizeName> PlaceOfPart(const KernelBuilder& builder, const Value* result,
                                  ArrayRef<Expr> offset, const std::string& part);
// The constant that holds element `at` of a constant tensor, or its literal if the number needs no
// name, as small whole numbers do.
CExpr NameNumber(KernelBuilder& builder, const Value* constant, int64_t at, const CExpr& literal);

}  // namespace fusec
