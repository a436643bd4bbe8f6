#pragma once

#include "compiler/driver/verify/verify_subject.h"

namespace fusec {

// `fusec verify --per-fusion` compares every region alone, compiled with interpreted. The exit code
// is 1 if one differs by more than its tolerance.
Result<int> RunVerifyPerFusion(const VerifyFlags& flags);

// `fusec verify --bisect` compares as `fusec verify` does, and finds the cause of the first
// difference: earlier sizes, if the answer is right in a new context; else the first region that is
// wrong by itself; else the pass that changed the graph's meaning. The exit code is 1 if there is a
// difference.
Result<int> RunVerifyBisect(const VerifyFlags& flags);

}  // namespace fusec
