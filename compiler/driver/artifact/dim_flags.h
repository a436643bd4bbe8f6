#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/support/adt.h"
#include "compiler/support/result.h"

namespace fusec {

using DimValues = std::map<std::string, int64_t>;  // one size per symbol

// A symbol and the sizes that it may have, both inclusive.
struct DimRange {
  std::string name;
  int64_t low = 1, high = 1;
};

// Parses ranges of symbols: "batch=1..4096" gives {"batch", {1, 4096}}, and "batch=64" stands for
// 64..64. The importer checks that low <= high.
Result<std::map<std::string, std::pair<int64_t, int64_t>>> ParseDimRanges(
    ArrayRef<std::string> flags);

// The sizes to run with: every combination of the sizes in flags such as "batch=1,2,5" "items=10".
// All symbols without a flag have the same default, clamped to their ranges, and every combination
// is repeated with each of `defaults`; equal cases are left out. Unknown symbols are usage errors
// that list the known ones; sizes outside a range are input errors.
Result<std::vector<DimValues>> DimCases(ArrayRef<std::string> flags, ArrayRef<DimRange> symbols,
                                        ArrayRef<int64_t> defaults);

std::string DimsText(const DimValues& dims);  // "batch=64, items=10"; "static dims" without symbols

}  // namespace fusec
