#include "compiler/plan/plan_program.h"

#include <algorithm>

#include "compiler/plan/kernel_name.h"
#include "compiler/plan/region_kernels.h"
#include "compiler/support/check.h"

namespace fusec {

namespace {

void LaunchDependently(KernelPlan& kernel) {
  kernel.dependent_launch = true;
  kernel.device_files.push_back("dependent_launch.cuh");
  std::vector<Statement>& body = kernel.body;
  auto place = std::find_if(body.begin(), body.end(), [](const Statement& statement) {
    return statement.kind == Statement::Kind::kAwait;
  });
  const bool is_first = place == body.end();
  if (is_first) place = body.begin();
  const char* const comment = is_first ? "Wait for earlier kernels before the first load or store."
                                       : "Wait for earlier kernels before any other load or store.";
  body.insert(place, {Statement::Comment(comment), Statement::Call("AwaitEarlierKernels()")});
  if (kernel.has_small_blocks) body.insert(body.begin(), Statement::Call("LetNextKernelStart()"));
}

// Lets kernels start while earlier kernels run, if there are at least two launches.
void LaunchDependently(const PlanOptions& options, ProgramPlan& program) {
  if (options.target != TargetKind::kGpu || !options.gpu->has.dependent_launch ||
      program.LaunchCount() < 2)
    return;
  for (Step& step : program.steps) {
    if (!step.is_matmul) LaunchDependently(step.kernel);
  }
}

}  // namespace

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
