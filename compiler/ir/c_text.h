#pragma once

#include <cstdint>
#include <string>

#include "compiler/ir/c_expr.h"
#include "compiler/ir/dtype.h"

namespace fusec {

// The C type of a local variable that holds one element in a kernel. f16 and bf16 are storage
// formats only: arithmetic on them is done in float.
std::string CTypeName(Dtype dtype);

// A number as a C literal of that type: "0.5f", "1e-05", "-3LL", "true". Infinities and NaN have no
// literals without headers, so their bits are passed to CUDA's __int_as_float (for f64
// __longlong_as_double), which the CPU's header defines as well. The smallest signed integers are
// written as parenthesized sums.
std::string CLiteral(double value, Dtype dtype);
std::string CLiteral(int64_t value, Dtype dtype);  // a u64 is passed as its bits
inline std::string CLiteral(int value, Dtype dtype) {
  return CLiteral(static_cast<int64_t>(value), dtype);
}
// The same as an expression.
template <class Number>
CExpr Literal(Number value, Dtype dtype) {
  return CExpr::Parse(CLiteral(value, dtype));
}

}  // namespace fusec
