#pragma once

#include <string>
#include <string_view>

namespace fusec {

// The exit code that says a bug of ours ended the process.
constexpr int kBugExitCode = 70;

// Prints a message about a bug of ours, with file and line, and exits with `kBugExitCode`.
[[noreturn]] void ReportBug(const char* file, int line, std::string_view condition,
                            const std::string& detail);

}  // namespace fusec

// A condition that only a bug of ours can break; `detail` (a std::string) usually prints the node
// or graph.
#define FUSEC_CHECK(condition, detail)                                            \
  do {                                                                            \
    if (!(condition)) ::fusec::ReportBug(__FILE__, __LINE__, #condition, detail); \
  } while (false)
