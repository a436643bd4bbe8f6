#pragma once

#include <string>
#include <vector>

#include "compiler/plan/kernel_plan.h"

namespace fusec {

// The passes of a compilation, by name, in order: those that every target shares, and those that
// fuse for one kind of target.
std::vector<std::string> SharedPasses();
std::vector<std::string> FusionPasses(TargetKind target);
// Both, one behind the other.
std::vector<std::string> PipelinePasses(TargetKind target);

}  // namespace fusec
