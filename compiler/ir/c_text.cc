#include "compiler/ir/c_text.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace fusec {
namespace {

std::string FloatLiteral(double value, bool is_double) {
  if (!is_double) value = static_cast<float>(value);
  if (std::isnan(value)) {
    return is_double ? "__longlong_as_double(0x7ff8000000000000LL)" : "__int_as_float(0x7fc00000)";
  }
  if (std::isinf(value)) {
    const std::string infinity =
        is_double ? "__longlong_as_double(0x7ff0000000000000LL)" : "__int_as_float(0x7f800000)";
    return (value < 0 ? "-" : "") + infinity;
  }
  std::string digits = is_double ? fmt::format("{}", value)
                                 : fmt::format("{}", static_cast<float>(value));
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return digits + (is_double ? "" : "f");
}

std::string SignedLiteral(int64_t value, int64_t smallest, const char* suffix) {
  if (value == smallest) return fmt::format("({}{} - 1)", value + 1, suffix);
  return fmt::format("{}{}", value, suffix);
}

}  // namespace

std::string CTypeName(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
    case Dtype::kF16:
    case Dtype::kBF16: return "float";
    case Dtype::kF64: return "double";
    case Dtype::kI8: return "signed char";
    case Dtype::kI16: return "short";
    case Dtype::kI32: return "int";
    case Dtype::kI64: return "long long";
    case Dtype::kU8: return "unsigned char";
    case Dtype::kU16: return "unsigned short";
    case Dtype::kU32: return "unsigned";
    case Dtype::kU64: return "unsigned long long";
    case Dtype::kBool: return "bool";
  }
  return "";
}

std::string CLiteral(double value, Dtype dtype) {
  if (IsFloat(dtype)) return FloatLiteral(value, dtype == Dtype::kF64);
  if (dtype == Dtype::kU64)
    return CLiteral(static_cast<int64_t>(static_cast<uint64_t>(value)), dtype);
  return CLiteral(static_cast<int64_t>(value), dtype);
}

std::string CLiteral(int64_t value, Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
    case Dtype::kF16:
    case Dtype::kBF16:
    case Dtype::kF64: return FloatLiteral(static_cast<double>(value), dtype == Dtype::kF64);
    case Dtype::kBool: return value != 0 ? "true" : "false";
    case Dtype::kI64: return SignedLiteral(value, std::numeric_limits<int64_t>::min(), "LL");
    case Dtype::kU32: return fmt::format("{}u", static_cast<uint32_t>(value));
    case Dtype::kU64: return fmt::format("{}ULL", static_cast<uint64_t>(value));
    default: return SignedLiteral(value, std::numeric_limits<int32_t>::min(), "");
  }
}

}  // namespace fusec
