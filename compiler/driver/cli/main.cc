#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "compiler/driver/cli/cli.h"
#include "compiler/support/check.h"
#include "compiler/support/interrupt.h"
#include "compiler/support/terminal.h"

namespace {

// The error's text as it is printed. Most errors are one line, so line breaks in names become '?'.
// Errors of a model or of the toolchain may have several lines, and so may a compiler's log, which
// follows a line that ends in a colon.
std::string TextOf(const fusec::Error& error) {
  std::string text = error.message;
  const bool may_be_list = error.kind == fusec::ErrorKind::kModel ||
                           error.kind == fusec::ErrorKind::kToolchain ||
                           text.find(":\n") != std::string::npos;
  if (!may_be_list) std::replace(text.begin(), text.end(), '\n', '?');
  return text;
}

}  // namespace

// The program `fusec`. Its command line is described in README.md and by `fusec -h`.
int main(int argc, char** argv) {
  constexpr int kInterrupted = 130;  // 128 + SIGINT, as shells count
  // With the signal ignored, a write beyond `ulimit -f` fails like one to a full disk, and partial
  // files are removed.
  std::signal(SIGXFSZ, SIG_IGN);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    const fusec::Result<int> code = fusec::ParseCommandLine(arguments)();
    if (!code && fusec::Interrupted()) {
      fusec::PrintNote("interrupted");
      return kInterrupted;
    }
    if (!code) {
      fusec::PrintError(TextOf(code.error()));
      return static_cast<int>(code.error().kind);
    }
    // Buffered output that a full disk cannot take fails here at the latest.
    if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
      fusec::PrintError("cannot write the results to stdout");
      return static_cast<int>(fusec::ErrorKind::kToolchain);
    }
    return *code;
  } catch (const std::bad_alloc&) {
    fusec::PrintError("out of memory");
    return static_cast<int>(fusec::ErrorKind::kToolchain);
  } catch (const std::exception& bug) {
    fusec::PrintError(std::string("a bug in fusec: ") + bug.what());
    return fusec::kBugExitCode;
  }
}
