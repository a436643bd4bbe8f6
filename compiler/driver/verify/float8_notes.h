#pragma once

#include <string>
#include <vector>

#include "compiler/driver/verify/verify_subject.h"

namespace fusec {

// Which products of the program are of factors in fp8 (--matmul-precision fp8), and why others are
// not, a line each. None on a CPU, which has no such products.
Result<std::vector<std::string>> Float8Notes(const Subject& subject);

}  // namespace fusec
