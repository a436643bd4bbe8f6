#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Whether a product by `columns` columns of `terms` constant weights is faster with 8-bit integers
// than with f32. The library is, from 8 by 16 on, but loops that store codes of fewer columns are
// not vectorized (a layer of 16 x 8 took 5 times as long).
bool PaysInIntegers(int64_t terms, int64_t columns);

// For CPUs, whose library multiplies 8-bit integers: products of rows by constant weights are left
// as they are, except that zero points become sums.
//
//   %y = matmul_integer(%a, %b, %z)
//     =>
//   %product = matmul(%a, %b) {to = i32}
//   %y = sub(%product, mul(cast(%z), %sums))    %sums: of the columns of %b
//
// A left factor of i8 becomes one of u8, plus 128. The zero points of the weights are constant, and
// the weights minus these must be 8-bit integers, too. expand-integer-products takes the other
// products, and those that PaysInIntegers leaves.
Result<bool> KeepIntegerProducts(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
