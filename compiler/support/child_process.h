#pragma once

#include <string>

#include "compiler/support/adt.h"
#include "compiler/support/result.h"

namespace fusec {

struct ChildResult {
  int exit_code = -1;          // -1 if it could not be started, died of a signal or was stopped
  std::string output, errors;  // what it wrote to stdout and stderr
};

// Runs a program, found on PATH if its name has no slash, without a shell, and waits for it. Once
// Interrupted(), it and what it started are ended, as they are where this process is killed.
// `temporary_folder`, if given, is its TMPDIR.
ChildResult RunChild(ArrayRef<std::string> arguments, const std::string& temporary_folder = "");

// Runs `work` in a copy of this process, so that a crash in it ends only the copy. Gives the code
// that it returns, or minus the signal that ended it. No other thread may be at work. An interrupt
// ends the copy.
int RunInCopy(function_ref<int()> work);

// A new folder in $TMPDIR or /tmp; the caller removes it (TemporaryFolder). The first one of a
// process sweeps those that killed processes left there.
Result<std::string> MakeTemporaryFolder();

}  // namespace fusec
