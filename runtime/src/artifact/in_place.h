#pragma once

#include <string>

#include "runtime/src/artifact/manifest.h"

namespace fusec::runtime {

// Checks that each buffer in place names an input of its dtype and size. `where` begins the error.
Status CheckInPlace(const Manifest& manifest, const std::string& where);

}  // namespace fusec::runtime
