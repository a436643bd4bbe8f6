#pragma once

#include <string>

namespace fusec::emulation {

// C++ text in which every asm statement of `text` has become a call of Ptx (face.h) with the same operands.
std::string AsmAsCalls(const std::string& text);

}  // namespace fusec::emulation
