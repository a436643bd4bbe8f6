#pragma once

#include "compiler/driver/verify/verify_subject.h"

namespace fusec {

// `fusec verify --per-fusion`: every region alone, compiled against interpreted. Exit code 1 if one
// is off by more than its tolerance.
Result<int> RunVerifyPerFusion(const VerifyFlags& flags);

// `fusec verify --bisect`: compares as `fusec verify` does, and on the first difference finds who
// made it: the sizes before, if the answer is right in a context of its own; else the first region
// that is wrong by itself, else the pass that changed the graph's meaning. Exit code 1 if there was
// a difference.
Result<int> RunVerifyBisect(const VerifyFlags& flags);

}  // namespace fusec
