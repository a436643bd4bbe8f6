#pragma once

#include <fusec/fusec.h>

#include <optional>
#include <string_view>

namespace fusec::runtime {

// The name in the manifest, such as "f32", "bf16" or "bool"; it is null-terminated.
std::string_view DtypeName(fusec_dtype dtype);
std::string_view SafetensorsName(fusec_dtype dtype);  // "F32", "BF16", "BOOL"
std::optional<fusec_dtype> ParseDtype(std::string_view name);
int DtypeBytes(fusec_dtype dtype);

}  // namespace fusec::runtime
