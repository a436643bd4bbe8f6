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

// `fusec verify --special-values` plants one special value into about every second row of the float
// inputs. NaN, zeros of both signs and denormals: all elements are compared with the interpreter's.
// Infinities and the greatest numbers: what they give where they are read depends on the order of
// sums, so elements that depend on them, by the interpreter, are left out, and all others must be
// what they are without them. The exit code is 1 if there is a difference.
Result<int> RunVerifySpecialValues(const VerifyFlags& flags);

}  // namespace fusec
