#pragma once

#include <string>

#include "runtime/src/artifact/mapped_file.h"

namespace fusec::runtime {

// Hash128 of a mapped file's bytes. Holes of the file, which read as zeros, are not read, and of a
// large file few pages are in this process's memory at a time.
std::string HashOfFile(const MappedFile& file);

}  // namespace fusec::runtime
