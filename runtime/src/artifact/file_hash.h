#pragma once

#include <string>

#include "runtime/src/artifact/mapped_file.h"

namespace fusec::runtime {

// Hash128 of a mapped file's bytes. Holes of a sparse file are hashed as zeros without reading
// them, and only few pages of a large file are in this process's memory at the same time.
std::string HashOfFile(const MappedFile& file);

}  // namespace fusec::runtime
