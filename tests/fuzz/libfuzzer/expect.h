// A condition that must hold for every input of a fuzzer.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace fusec {

inline void Expect(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what.c_str());
  std::abort();
}

}  // namespace fusec
