#pragma once

#include <string>

#include "compiler/support/adt.h"
#include "compiler/support/result.h"

namespace fusec {

struct ChildResult {
  int exit_code = -1;          // -1 if it could not be started, died of a signal or was stopped
  std::string output, errors;  // what it wrote to stdout and stderr
};

// Runs a program without a shell and waits for it. It is searched on PATH if its name has no slash.
// Once Interrupted() is true, it and the processes that it started are terminated; they are killed
// if this process is killed. `temporary_folder`, if given, becomes its TMPDIR.
ChildResult RunChild(ArrayRef<std::string> arguments, const std::string& temporary_folder = "");

// Runs `work` in a fork of this process, so that a crash in it ends only the fork. Returns the
// result of `work`, or the negated number of the signal that ended the fork. No other thread may be
// running. An interrupt ends the fork.
int RunInCopy(function_ref<int()> work);

// Creates a folder in $TMPDIR or /tmp; the caller removes it (TemporaryFolder). The first call in a
// process also removes folders that killed processes left there.
Result<std::string> MakeTemporaryFolder();

}  // namespace fusec
