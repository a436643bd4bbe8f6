#pragma once

#include <string>
#include <vector>

#include "compiler/plan/program_plan.h"

namespace fusec {

// The names of a compilation's passes, in order: first those that all targets share, then those
// that fuse for one kind of target. With `round_every_op`, f16 and bf16 values are rounded as the
// model's unfused ops would round them, and weights are not rewritten.
std::vector<std::string> SharedPasses(bool round_every_op = false);
std::vector<std::string> FusionPasses(TargetKind target);
// The shared passes, followed by the fusion passes.
std::vector<std::string> PipelinePasses(TargetKind target, bool round_every_op = false);

}  // namespace fusec
