#include "compiler/support/nearest_name.h"

#include <algorithm>
#include <numeric>

#include "compiler/support/adt.h"

namespace fusec {

namespace {

// The Levenshtein distance, computed one table row at a time.
size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string NearestName(const std::string& typed, ArrayRef<std::string> candidates) {
  std::string nearest;
  size_t fewest = typed.size() / 2 + 1;
  for (const std::string& candidate : candidates) {
    // People abbreviate names by typing only the beginning.
    const bool begins = !typed.empty() && candidate.starts_with(typed);
    const size_t distance = begins ? 1 : EditDistance(typed, candidate);
    if (distance >= fewest) continue;
    fewest = distance;
    nearest = candidate;
  }
  return nearest;
}

std::string DidYouMean(const std::string& typed, ArrayRef<std::string> candidates) {
  const std::string nearest = NearestName(typed, candidates);
  return nearest.empty() ? "" : " (did you mean \"" + nearest + "\"?)";
}

}  // namespace fusec
