#include "runtime/src/artifact/dtype.h"

namespace fusec::runtime {
namespace {

struct Row {
  std::string_view name, safetensors_name;
  int bytes;
};

// In the order of fusec_dtype.
constexpr Row kRows[] = {
    {"f32", "F32", 4}, {"f16", "F16", 2}, {"bf16", "BF16", 2}, {"f64", "F64", 8}, {"i8", "I8", 1},
    {"i16", "I16", 2}, {"i32", "I32", 4}, {"i64", "I64", 8},   {"u8", "U8", 1},   {"u16", "U16", 2},
    {"u32", "U32", 4}, {"u64", "U64", 8}, {"bool", "BOOL", 1},
};
static_assert(sizeof(kRows) / sizeof(kRows[0]) == FUSEC_BOOL + 1);

}  // namespace

std::string_view DtypeName(fusec_dtype dtype) { return kRows[dtype].name; }
std::string_view SafetensorsName(fusec_dtype dtype) { return kRows[dtype].safetensors_name; }
int DtypeBytes(fusec_dtype dtype) { return kRows[dtype].bytes; }

std::optional<fusec_dtype> ParseDtype(std::string_view name) {
  for (int i = 0; i <= FUSEC_BOOL; ++i) {
    if (kRows[i].name == name) return static_cast<fusec_dtype>(i);
  }
  return std::nullopt;
}

}  // namespace fusec::runtime
