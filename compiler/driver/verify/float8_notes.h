#pragma once

#include <string>
#include <vector>

#include "compiler/driver/verify/verify_subject.h"

namespace fusec {

// Notes on the matrix products of the program: one that lists those in fp8 (--matmul-precision
// fp8), and one for each that is not, with the reason. Empty on a CPU, which has no fp8 products.
Result<std::vector<std::string>> Float8Notes(const Subject& subject);

}  // namespace fusec
