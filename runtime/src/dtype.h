#pragma once

#include <fusec/fusec.h>

#include <optional>
#include <string_view>

namespace fusec::runtime {

std::string_view DtypeName(
    fusec_dtype dtype);  // "f32", "bf16", "bool": the spelling of the manifest
std::string_view SafetensorsName(fusec_dtype dtype);  // "F32", "BF16", "BOOL"
std::optional<fusec_dtype> ParseDtype(std::string_view name);
int DtypeBytes(fusec_dtype dtype);

}  // namespace fusec::runtime
