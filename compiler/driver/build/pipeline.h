#pragma once

#include <string>
#include <vector>

#include "compiler/plan/program_plan.h"

namespace fusec {

// The passes of a compilation, by name, in order: those that every target shares, and those that
// fuse for one kind of target. With `round_every_op`, half types are rounded as the model's unfused
// ops would, and weights are not rewritten.
std::vector<std::string> SharedPasses(bool round_every_op = false);
std::vector<std::string> FusionPasses(TargetKind target);
// Both, one behind the other.
std::vector<std::string> PipelinePasses(TargetKind target, bool round_every_op = false);

}  // namespace fusec
