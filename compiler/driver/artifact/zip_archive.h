#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/result.h"

namespace fusec {

struct ZipMember {
  std::string name;
  std::string bytes;  // unpacked
};

// The files in a zip archive, stored or deflated, in the order of its directory. The archive may
// use 64-bit sizes (zip64), as numpy.savez always does. Checksums are verified. Errors are of kind
// kInput and begin with `name`.
Result<std::vector<ZipMember>> ReadZip(std::string_view archive, const std::string& name);

}  // namespace fusec
