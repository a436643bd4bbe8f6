#pragma once

#include <string>

#include "compiler/ir/graph.h"
#include "compiler/plan/program_plan.h"

namespace fusec {

// How the kernels of a CPU library are launched, in the words of the runtime's LaunchTexts
// (runtime/src/artifact/launch_text.h).
std::string LaunchTexts(const ProgramPlan& plan, ArrayRef<DimSymbol> dims);

// The text that has the library carry these lines, for the runtime to compare a manifest with.
std::string EmitLaunches(const std::string& launches);

}  // namespace fusec
