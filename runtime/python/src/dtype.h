// fusec_dtype beside the names of the same types in DLPack, buffers of Python and array libraries.
#pragma once

#include <fusec/fusec.h>

#include <optional>
#include <string>

#include "runtime/python/src/dlpack.h"

namespace fusec::python {

inline constexpr int kDtypeCount = FUSEC_BOOL + 1;

// "float32", "bfloat16", "bool": the attribute of numpy, torch and array libraries.
const char* ArrayName(fusec_dtype dtype);
// "f" as in the module struct; null for bf16, which it does not know.
const char* BufferFormat(fusec_dtype dtype);
dlpack::DataType ToDlpack(fusec_dtype dtype);

std::optional<fusec_dtype> FromDlpack(dlpack::DataType dtype);
// Of a buffer's format in native byte order; null means bytes.
std::optional<fusec_dtype> FromBufferFormat(const char* format, size_t item_bytes);
// "f32" -> FUSEC_F32; also "float32".
std::optional<fusec_dtype> FromName(const std::string& name);

}  // namespace fusec::python
