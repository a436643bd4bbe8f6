#pragma once

#include <string>
#include <string_view>

namespace fusec {

// The exit code of a process that a bug in fusec ended.
constexpr int kBugExitCode = 70;

// Prints a message about a bug in fusec, with file and line, and exits with `kBugExitCode`.
[[noreturn]] void ReportBug(const char* file, int line, std::string_view condition,
                            const std::string& detail);

}  // namespace fusec

// A condition that only a bug in fusec can violate; `detail` (a std::string) usually prints the
// node or graph.
#define FUSEC_CHECK(condition, detail)                                            \
  do {                                                                            \
    if (!(condition)) ::fusec::ReportBug(__FILE__, __LINE__, #condition, detail); \
  } while (false)
