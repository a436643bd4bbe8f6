#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace fusec::runtime {

// XXH3-128 in its canonical form: 32 lower case hexadecimal digits, the high half first, as
// `xxh128sum` prints it.
std::string Hash128(std::span<const std::byte> bytes);

}  // namespace fusec::runtime
