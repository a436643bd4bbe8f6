#include "runtime/python/src/dtype.h"

#include <cstring>

namespace fusec::python {
namespace {

struct Row {
  fusec_dtype dtype;
  const char* array_name;
  const char* format;
  uint8_t code, bits;  // of DLPack's DataType
};
// In the order of fusec_dtype.
constexpr Row kRows[] = {
    {FUSEC_F32, "float32", "f", dlpack::kFloat, 32},
    {FUSEC_F16, "float16", "e", dlpack::kFloat, 16},
    {FUSEC_BF16, "bfloat16", nullptr, dlpack::kBfloat, 16},
    {FUSEC_F64, "float64", "d", dlpack::kFloat, 64},
    {FUSEC_I8, "int8", "b", dlpack::kInt, 8},
    {FUSEC_I16, "int16", "h", dlpack::kInt, 16},
    {FUSEC_I32, "int32", "i", dlpack::kInt, 32},
    {FUSEC_I64, "int64", "q", dlpack::kInt, 64},
    {FUSEC_U8, "uint8", "B", dlpack::kUInt, 8},
    {FUSEC_U16, "uint16", "H", dlpack::kUInt, 16},
    {FUSEC_U32, "uint32", "I", dlpack::kUInt, 32},
    {FUSEC_U64, "uint64", "Q", dlpack::kUInt, 64},
    {FUSEC_BOOL, "bool", "?", dlpack::kBool, 8},
};
static_assert(sizeof(kRows) / sizeof(kRows[0]) == kDtypeCount);

}  // namespace

const char* ArrayName(fusec_dtype dtype) { return kRows[dtype].array_name; }
const char* BufferFormat(fusec_dtype dtype) { return kRows[dtype].format; }
dlpack::DataType ToDlpack(fusec_dtype dtype) { return {kRows[dtype].code, kRows[dtype].bits, 1}; }

std::optional<fusec_dtype> FromDlpack(dlpack::DataType dtype) {
  for (const Row& row : kRows) {
    if (row.code == dtype.code && row.bits == dtype.bits && dtype.lanes == 1) return row.dtype;
  }
  return std::nullopt;
}

std::optional<fusec_dtype> FromBufferFormat(const char* format, size_t item_bytes) {
  if (format == nullptr) return FUSEC_U8;
  if (*format == '@' || *format == '=' || *format == '<') ++format;  // x86-64 is little-endian
  if (std::strlen(format) != 1) return std::nullopt;
  // "l" and "L" have 4 or 8 bytes, "c" and "B" one.
  const char kind = *format == 'l'   ? (item_bytes == 8 ? 'q' : 'i')
                    : *format == 'L' ? (item_bytes == 8 ? 'Q' : 'I')
                    : *format == 'n' ? 'q'
                    : *format == 'N' ? 'Q'
                    : *format == 'c' ? 'B'
                                     : *format;
  for (const Row& row : kRows) {
    if (row.format && *row.format == kind && fusec_dtype_bytes(row.dtype) == item_bytes)
      return row.dtype;
  }
  return std::nullopt;
}

std::optional<fusec_dtype> FromName(const std::string& name) {
  for (const Row& row : kRows) {
    if (name == row.array_name || name == fusec_dtype_name(row.dtype)) return row.dtype;
  }
  return std::nullopt;
}

}  // namespace fusec::python
