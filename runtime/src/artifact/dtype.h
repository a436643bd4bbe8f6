#pragma once

#include <fusec/fusec.h>

#include <optional>
#include <string_view>

namespace fusec::runtime {

// "f32", "bf16", "bool": the spelling of the manifest, with a 0 behind it.
std::string_view DtypeName(fusec_dtype dtype);
std::string_view SafetensorsName(fusec_dtype dtype);  // "F32", "BF16", "BOOL"
std::optional<fusec_dtype> ParseDtype(std::string_view name);
int DtypeBytes(fusec_dtype dtype);

}  // namespace fusec::runtime
