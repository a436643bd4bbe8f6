#pragma once

#include <string>

namespace fusec::emulation {

// Returns `text` with every asm statement replaced by a call of Ptx (face.h) with the same operands.
std::string AsmAsCalls(const std::string& text);

}  // namespace fusec::emulation
