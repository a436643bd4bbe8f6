#pragma once

#include "compiler/kernel/kernel_builder.h"

namespace fusec {

// What the numbers of a kernel are called. Each of these names those numbers of its subject that
// are constants, unless they have a name already.

// Names the strides of a row-major `shape` in the kernel ("kHiddenColumns"), so that positions read
// well.
void NameStrides(KernelBuilder& builder, const std::string& buffer, const Shape& shape);
// Names the number in a count such as 16 or batch * 16.
void NameCount(KernelBuilder& builder, const Expr& count, const std::string& hint,
               const std::string& comment);
// What lies between an element and the one of `tensor` that is read for it: a number, or one per
// dim.
void NameOffsets(KernelBuilder& builder, const std::string& tensor, const Expr& position);
// Where `part` begins that is stored at `offset` of a result.
void NamePlace(KernelBuilder& builder, const Value* result, const std::vector<Expr>& offset,
               const std::string& part);
// The constant that holds element `at` of a constant tensor, or its literal where this speaks for
// itself: small whole numbers.
std::string NameNumber(KernelBuilder& builder, const Value* constant, int64_t at,
                       const std::string& literal);
// Sizes and strides of a tensor: for numbers that nothing else names before they are written.
void SuggestSizes(KernelBuilder& builder, const Value& value);

}  // namespace fusec
