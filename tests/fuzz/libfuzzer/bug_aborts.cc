// Replaces compiler/support/check.cc, which exits at once: libFuzzer keeps an input that led to an abort().
#include <cstdio>
#include <cstdlib>

#include "compiler/support/check.h"

namespace fusec {

void ReportBug(const char* file, int line, std::string_view condition, const std::string& detail) {
  std::fprintf(stderr, "fusec: bug at %s:%d: %.*s does not hold\n%s\n", file, line, static_cast<int>(condition.size()), condition.data(),
               detail.c_str());
  std::abort();
}

}  // namespace fusec
