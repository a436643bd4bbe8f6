// Conversion of fusec_dtype to and from the types of DLPack, Python's buffers and array libraries.
#pragma once

#include <fusec/fusec.h>

#include <optional>
#include <string>

#include "runtime/python/src/dlpack.h"

namespace fusec::python {

inline constexpr int kDtypeCount = FUSEC_BOOL + 1;

// The attribute of numpy, torch and array libraries, such as "float32", "bfloat16" or "bool".
const char* ArrayName(fusec_dtype dtype);
// The format character of the module struct, such as "f"; null for bf16, which has none.
const char* BufferFormat(fusec_dtype dtype);
dlpack::DataType ToDlpack(fusec_dtype dtype);

std::optional<fusec_dtype> FromDlpack(dlpack::DataType dtype);
// The dtype of a buffer's format in native byte order; a null format means bytes.
std::optional<fusec_dtype> FromBufferFormat(const char* format, size_t item_bytes);
// The dtype of a name: "f32" or "float32" gives FUSEC_F32.
std::optional<fusec_dtype> FromName(const std::string& name);

}  // namespace fusec::python
