#pragma once

#include <string>
#include <string_view>

#include "runtime/src/status.h"

namespace fusec::runtime {

// Compares a manifest with the hash that it contains, if there is one. Most values that control
// kernels have no other check: a wrong digit in a dim could make a kernel access memory outside its
// buffers.
Status CheckManifestHash(std::string_view json, const std::string& file);

}  // namespace fusec::runtime
