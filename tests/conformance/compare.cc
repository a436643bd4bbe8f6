#include "tests/conformance/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

namespace fusec {
namespace {

bool Close(double found, double expected, Dtype dtype) {
  if (found == expected || (std::isnan(found) && std::isnan(expected))) return true;
  if (std::isinf(found) || std::isinf(expected)) return false;
  const double relative = dtype == Dtype::kF16 ? 0x1p-9 : dtype == Dtype::kBF16 ? 0x1p-6 : 1e-3;
  return std::abs(found - expected) <= 1e-7 + relative * std::abs(expected);
}

}  // namespace

std::optional<std::string> Difference(const TensorData& found, const TensorData& expected) {
  if (found.dtype() != expected.dtype() || found.dims() != expected.dims()) {
    return fmt::format("is {}[{}], expected {}[{}]", DtypeName(found.dtype()),
                       fmt::join(found.dims(), ", "), DtypeName(expected.dtype()),
                       fmt::join(expected.dims(), ", "));
  }
  int64_t different = 0;
  std::string first;
  for (int64_t i = 0; i < expected.element_count(); ++i) {
    const bool is_float = IsFloat(expected.dtype());
    if (is_float ? Close(found.GetDouble(i), expected.GetDouble(i), expected.dtype())
                 : found.GetInt(i) == expected.GetInt(i)) {
      continue;
    }
    if (different++ != 0) continue;
    first = is_float ? fmt::format("element {} is {}, expected {}", i, found.GetDouble(i),
                                   expected.GetDouble(i))
                     : fmt::format("element {} is {}, expected {}", i, found.GetInt(i),
                                   expected.GetInt(i));
  }
  if (different == 0) return std::nullopt;
  return fmt::format("{} of {} elements differ: {}", different, expected.element_count(), first);
}

}  // namespace fusec
