#pragma once

#include <string>

#include "compiler/support/adt.h"

namespace fusec {

// What a mistyped name was probably meant to be: the candidate with the fewest inserted, deleted
// and replaced characters, the first of several; "" if more than half of it would have to change.
std::string NearestName(const std::string& typed, ArrayRef<std::string> candidates);

// " (did you mean "k01_linear_relu"?)", or "".
std::string DidYouMean(const std::string& typed, ArrayRef<std::string> candidates);

}  // namespace fusec
