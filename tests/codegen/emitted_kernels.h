#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/result.h"

namespace fusec {

// The text of one kernel, as written to the kernels/ folder of an artifact.
struct EmittedKernel {
  std::string name;
  std::string text;
};

// The kernels of a simplified graph for a target: "cpu", "sm_80", ...
Result<std::vector<EmittedKernel>> EmitKernels(const Graph& simplified, const std::string& target,
                                               const std::string& matmul_precision = "highest");

// The paths of all models in the repository.
std::vector<std::string> ModelPaths();

// A model after the passes that all targets share.
Result<std::unique_ptr<Graph>> SimplifiedGraph(const std::string& path);

}  // namespace fusec
