#pragma once

#include <string>

#include "compiler/ir/graph.h"
#include "compiler/plan/program_plan.h"

namespace fusec {

// A description of how the kernels of a CPU library are launched, in the format of the runtime's
// LaunchTexts (runtime/src/artifact/launch_text.h).
std::string LaunchTexts(const ProgramPlan& plan, ArrayRef<DimSymbol> dims);

// C++ source that stores these lines in the library, so that the runtime can compare them with a
// manifest.
std::string EmitLaunches(const std::string& launches);

}  // namespace fusec
