#include "compiler/support/check.h"

#include <cstdio>
#include <cstdlib>

namespace fusec {

void ReportBug(const char* file, int line, std::string_view condition, const std::string& detail) {
  std::fprintf(stderr, "fusec: bug at %s:%d: %.*s does not hold\n%s\n", file, line,
               static_cast<int>(condition.size()), condition.data(), detail.c_str());
  std::fprintf(stderr, "fusec: please report this with the model that caused it\n");
  std::fflush(nullptr);
  std::_Exit(kBugExitCode);
}

}  // namespace fusec
