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

// The files in a zip archive, stored or deflated, in the order of its directory. It may have the
// 64-bit fields that numpy.savez always writes. Checksums are compared. Errors are of kind kInput
// and begin with `name`.
Result<std::vector<ZipMember>> ReadZip(std::string_view archive, const std::string& name);

}  // namespace fusec
