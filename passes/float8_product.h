#pragma once

#include <cstdint>
#include <string>

namespace fusec {

// A product that --matmul-precision fp8 is about.
struct Float8Product {
  std::string layer;               // the module or the node that it comes from
  std::string result;              // its value
  int64_t columns = 0, terms = 0;  // of the result, and of each of its sums
  double error = 0;                // relative L2 that rounding its factors causes
  std::string kept;                // why it stays as it is; "" where it does not
  bool operator==(const Float8Product&) const = default;
};

// The most of that error that a product may have, unless --fp8-budget says so.
inline constexpr double kFloat8Budget = 0.05;

}  // namespace fusec
