#pragma once

#include <cstdint>
#include <string>

#include "compiler/ir/c_expr.h"
#include "compiler/ir/dtype.h"

namespace fusec {

// The C type of a kernel's local that holds one element: f16 and bf16 exist in memory only, and are computed with as float.
std::string CTypeName(Dtype dtype);

// A number as a C literal of that type: "0.5f", "1e-05", "-3LL", "true". Infinities and NaN have none without headers, so their bits
// are given to CUDA's __int_as_float, which the CPU's header has too; the smallest integers are parenthesized sums.
std::string CLiteral(double value, Dtype dtype);
std::string CLiteral(int64_t value, Dtype dtype);  // of a u64: its bits
inline std::string CLiteral(int value, Dtype dtype) {
  return CLiteral(static_cast<int64_t>(value), dtype);
}
// The same as an expression.
template <class Number>
CExpr Literal(Number value, Dtype dtype) {
  return CExpr::Parse(CLiteral(value, dtype));
}

}  // namespace fusec
