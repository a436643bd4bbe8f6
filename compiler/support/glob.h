#pragma once

#include <fnmatch.h>

#include <string>

namespace fusec {

// Whether a name matches a shell pattern with *, ? and [..].
inline bool MatchesGlob(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

}  // namespace fusec
