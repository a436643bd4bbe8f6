#pragma once

#include "compiler/driver/verify/verify_subject.h"

namespace fusec {

// `fusec verify --per-fusion` compares the compiled kernel of every region, alone, with the
// region's interpreted ops. The exit code is 1 if one differs by more than its tolerance.
Result<int> RunVerifyPerFusion(const VerifyFlags& flags);

// `fusec verify --bisect` compares answers with the interpreter's, and finds the cause of the first
// difference: runs of earlier sizes, if the answer is right in a new context; otherwise the first
// region whose kernel is wrong by itself; otherwise the pass that changed the results of the graph.
// The exit code is 1 if there is a difference.
Result<int> RunVerifyBisect(const VerifyFlags& flags);

// `fusec verify --special-values` puts one special value into about every second row of the float
// inputs. With NaN, zeros of both signs and denormals, all elements are compared with those of the
// interpreter. With infinities and the greatest finite numbers, results depend on the order of
// sums, so elements that depend on these values (as the interpreter shows) are left out, and all
// others must be as without them. The exit code is 1 if there is a difference.
Result<int> RunVerifySpecialValues(const VerifyFlags& flags);

}  // namespace fusec
