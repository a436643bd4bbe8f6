#pragma once

#include <string>
#include <vector>

#include "compiler/driver/artifact/random_flags.h"
#include "compiler/support/result.h"

namespace fusec {

struct EditChecks {
  std::string device;             // as LoadProgram takes it
  std::vector<std::string> dims;  // "batch=1,64"; without, sizes are chosen
  RandomFlags random_flags;
};

// Compares every edited kernel of the artifact in `folder`, alone, with its unfused ops, as `fusec
// verify --per-fusion` does, and prints a table. Without dims it does so at the sizes of verify and
// at some for which each of them has several blocks. True if all pass. Writes into the empty folder
// `scratch`, where the file kCheckedTarget names the target that the device runs.
Result<bool> CheckEdits(const std::string& folder, const std::string& scratch,
                        const EditChecks& checks);
inline constexpr const char* kCheckedTarget = "/target";

// Prints how long the edited kernels take, and the originals in `original` beside them, at the
// sizes of `checks` (without: 64).
Result<void> TimeEdits(const std::string& folder, const std::string& original,
                       const EditChecks& checks);

}  // namespace fusec
