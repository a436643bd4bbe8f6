#pragma once

#include <string>

#include "compiler/support/adt.h"

namespace fusec {

// The candidate that a mistyped name most probably means: the one with the smallest edit distance
// (insertions, deletions and replacements), the first one if there are several. A candidate that
// begins with the typed name has distance 1. Returns "" if more than half of the typed name would
// have to change.
std::string NearestName(const std::string& typed, ArrayRef<std::string> candidates);

// " (did you mean "k01_linear_relu"?)", or "".
std::string DidYouMean(const std::string& typed, ArrayRef<std::string> candidates);

}  // namespace fusec
