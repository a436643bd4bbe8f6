#include "compiler/plan/plan_program.h"

#include <algorithm>
#include <cstdio>

#include "compiler/ops/op_def.h"
#include "compiler/plan/region_kernels.h"
#include "compiler/support/check.h"

namespace fusec {

namespace {

constexpr size_t kNamedOps = 5;
// From here on a kernel may be launched while the one before it runs.
constexpr int kDependentLaunchArchitecture = 90;

// Distinct op names of a region in order; views only where there is nothing else.
std::vector<std::string> OpNames(const Node& region) {
  std::vector<std::string> ops, views;
  for (const auto& node : region.body->nodes) {
    const OpDef& def = GetOpDef(node->kind);
    if (def.op_class == OpClass::kConstant) continue;
    const bool is_view = def.op_class == OpClass::kView && node->kind != OpKind::kConcat;
    auto& list = is_view ? views : ops;
    if (std::find(list.begin(), list.end(), def.text) == list.end()) list.push_back(def.text);
  }
  return ops.empty() ? views : ops;
}

// Lets kernels start while the ones before them run, which needs at least two.
void LaunchDependently(const PlanOptions& options, ProgramPlan& program) {
  if (options.target != TargetKind::kGpu || options.architecture < kDependentLaunchArchitecture ||
      program.LaunchCount() < 2)
    return;
  for (Step& step : program.steps) {
    if (step.is_matmul) continue;
    step.kernel.dependent_launch = true;
    step.kernel.device_files.push_back("dependent_launch.cuh");
  }
}

}  // namespace

std::string RegionName(const Node& region, size_t number) {
  char prefix[16];
  std::snprintf(prefix, sizeof prefix, "k%02zu", number);
  std::string name = prefix;
  const std::vector<std::string> ops = OpNames(region);
  for (size_t i = 0; i < std::min(ops.size(), kNamedOps); ++i) name += "_" + ops[i];
  return name;
}

Result<ProgramPlan> PlanProgram(const Graph& graph, const PlanOptions& options,
                                std::vector<IndexSite>& sites) {
  ProgramPlan program;
  program.target = options.target;
  size_t number = 0;
  for (const auto& node : graph.nodes) {
    if (node->kind == OpKind::kConstant) continue;
    FUSEC_CHECK(node->kind == OpKind::kRegion,
                "unfused node reached planning: " + PrintNode(*node));
    const RegionKernels kernels(*node, RegionName(*node, number), OpNames(*node), options, graph);
    const std::vector<Winner>* winners = nullptr;
    if (options.tuning != nullptr) {
      const auto found = options.tuning->find(number);
      if (found != options.tuning->end()) winners = &found->second;
    }
    const auto variants = winners != nullptr ? kernels.Tuned(*winners) : kernels.Planned();
    for (Step& step : kernels.Plan(variants, sites)) program.steps.push_back(std::move(step));
    ++number;
  }
  LaunchDependently(options, program);
  return program;
}

}  // namespace fusec
