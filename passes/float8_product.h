#pragma once

#include <cstdint>
#include <string>

namespace fusec {

// A product that --matmul-precision fp8 considered.
struct Float8Product {
  std::string layer;               // the module or the node that it comes from
  std::string result;              // the name of its result
  int64_t columns = 0, terms = 0;  // of the result, and of each of its sums
  double error = 0;                // relative L2 error that rounding its factors causes
  std::string kept;                // why it was not rounded to fp8; "" if it was
  bool operator==(const Float8Product&) const = default;
};

// The largest `error` that a product may have, unless --fp8-budget gives another limit.
inline constexpr double kFloat8Budget = 0.05;

}  // namespace fusec
