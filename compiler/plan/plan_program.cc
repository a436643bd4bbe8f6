#include "compiler/plan/plan_program.h"

#include <algorithm>

#include "compiler/plan/kernel_name.h"
#include "compiler/plan/matmul/product_planner.h"
#include "compiler/plan/region_kernels.h"
#include "compiler/region/product.h"
#include "compiler/region/slot_product.h"
#include "compiler/support/check.h"

namespace fusec {

namespace {

// A region and its steps, which are consecutive.
struct PlannedRegion {
  const Node* node;
  size_t first_step, steps;
};

// Where a kernel waits for earlier ones, in relation to the kernels before and behind it.
enum class Waiting {
  kAlone,
  // The next kernel starts when this one has waited, and waits for this one's results alone.
  kBeforeNext,
  kForPrevious,  // that next kernel
};

// Lets a kernel start while earlier kernels run.
void LaunchDependently(KernelPlan& kernel, Waiting waiting) {
  kernel.dependent_launch = true;
  const auto use = [&](const char* file) {
    std::vector<std::string>& files = kernel.device_files;
    if (std::find(files.begin(), files.end(), file) == files.end()) files.push_back(file);
  };
  use("dependent_launch.cuh");
  if (waiting == Waiting::kBeforeNext) use("dependent_neighbor.cuh");
  std::vector<Statement>& body = kernel.body;
  const auto find = [&](Statement::Kind kind) {
    return std::find_if(body.begin(), body.end(),
                        [&](const Statement& statement) { return statement.kind == kind; });
  };
  auto place = find(waiting == Waiting::kForPrevious ? Statement::Kind::kAwaitPrevious
                                                     : Statement::Kind::kAwait);
  if (waiting == Waiting::kForPrevious && place == body.end())
    place = find(Statement::Kind::kAwait);
  const bool is_first = place == body.end();
  if (is_first) place = body.begin();
  const char* comment = "Wait for earlier kernels before any other load or store.";
  if (is_first)
    comment = "Wait for earlier kernels before the first load or store.";
  else if (place->kind == Statement::Kind::kAwaitPrevious)
    comment = "Wait for the previous kernel before the first store.";
  body.insert(place,
              {Statement::Comment(comment),
               Statement::Call(waiting == Waiting::kBeforeNext ? "AwaitEarlierKernelsBeforeNext()"
                                                               : "AwaitEarlierKernels()")});
  if (kernel.has_small_blocks && waiting != Waiting::kBeforeNext)
    body.insert(body.begin(), Statement::Call("LetNextKernelStart()"));
}

// Whether `region` is a layer that adds adapters whose low-rank rows `previous` makes, and that
// reads no other result of it: the two may run side by side until these rows are needed.
bool AddsRowsOf(const Node& region, const Node& previous) {
  for (const auto& node : region.body->nodes) {
    if (node->kind != OpKind::kAdd) continue;
    for (const Value* side : node->operands) {
      const Node* product = side->producer;
      const Node* adapter = product ? SlotAddendOf(*node, *product) : nullptr;
      if (adapter == nullptr) continue;
      const Value* rows = OperandOf(region, adapter->operand(0));
      return rows != nullptr && rows->producer == &previous &&
             std::count_if(region.operands.begin(), region.operands.end(),
                           [&](const Value* v) { return v->producer == &previous; }) == 1;
    }
  }
  return false;
}

// Lets kernels start while earlier kernels run, if there are at least two launches.
void LaunchDependently(const PlanOptions& options, ArrayRef<PlannedRegion> regions,
                       ProgramPlan& program) {
  if (options.target != TargetKind::kGpu || !options.gpu->has.dependent_launch ||
      program.LaunchCount() < 2)
    return;
  for (size_t i = 0; i < regions.size(); ++i) {
    const PlannedRegion& region = regions[i];
    Waiting waiting = Waiting::kAlone;
    if (i + 1 < regions.size() && AddsRowsOf(*regions[i + 1].node, *region.node))
      waiting = Waiting::kBeforeNext;
    else if (i > 0 && AddsRowsOf(*region.node, *regions[i - 1].node))
      waiting = Waiting::kForPrevious;
    for (size_t step = region.first_step; step < region.first_step + region.steps; ++step) {
      if (!program.steps[step].is_matmul) LaunchDependently(program.steps[step].kernel, waiting);
    }
  }
}

bool Reads(const Step& step, const Value* value) {
  if (step.is_matmul) {
    const MatMulPlan& plan = step.matmul;
    const auto operands = {plan.a.value, plan.b.value, plan.bias,
                           plan.addend,  plan.codes,   plan.factors};
    return std::find(operands.begin(), operands.end(), value) != operands.end();
  }
  return std::any_of(step.kernel.parameters.begin(), step.kernel.parameters.end(),
                     [&](const KernelParameter& parameter) {
                       const auto& tables = parameter.tables;
                       return parameter.value == value ||
                              std::find(tables.begin(), tables.end(), value) != tables.end();
                     });
}

// The regions that read each value.
using RegionReaders = DenseMap<const Value*, std::vector<const PlannedRegion*>>;
RegionReaders ReadersOf(ArrayRef<PlannedRegion> regions) {
  RegionReaders readers;
  for (const PlannedRegion& region : regions) {
    for (const Value* operand : region.node->operands) {
      std::vector<const PlannedRegion*>& all = readers[operand];
      if (all.empty() || all.back() != &region) all.push_back(&region);
    }
  }
  return readers;
}

// The sizes at which a step reads a result of a region: those from `from` on, which is INT64_MAX if
// there are none. nullopt if that is any size, or if something else reads a result.
std::optional<Alternative> SizesWithReaders(const Node& region, const Graph& graph,
                                            const RegionReaders& readers,
                                            const ProgramPlan& program) {
  std::optional<Alternative> sizes;
  for (const auto& result : region.results) {
    const Value* value = result.get();
    if (std::find(graph.outputs.begin(), graph.outputs.end(), value) != graph.outputs.end())
      return std::nullopt;
    const auto found = readers.find(value);
    if (found == readers.end()) continue;
    for (const PlannedRegion* reader : found->second) {
      const auto first = program.steps.begin() + static_cast<int64_t>(reader->first_step);
      const auto end = first + static_cast<int64_t>(reader->steps);
      if (!first->alternative) return std::nullopt;
      const Expr& size = first->alternative->size;
      if (!sizes) sizes = {size, INT64_MAX, INT64_MAX};
      if (!(sizes->size == size)) return std::nullopt;
      const auto reading = std::find_if(first, end, [&](const Step& s) { return Reads(s, value); });
      if (reading == end) continue;
      if (reading->alternative->by_waves) return std::nullopt;
      sizes->from = std::min(sizes->from, reading->alternative->from);
    }
  }
  if (!sizes || sizes->from == 0) return std::nullopt;
  sizes->is_first = true;
  return sizes;
}

// Lets steps run only at sizes at which a step reads their results: those that dequantize weights,
// and those that sort updates.
void IdleSteps(const Graph& graph, ArrayRef<PlannedRegion> regions, ProgramPlan& program) {
  const RegionReaders readers = ReadersOf(regions);
  for (size_t i = regions.size(); i-- > 0;) {
    const PlannedRegion& region = regions[i];
    if (region.steps == 1)
      program.steps[region.first_step].alternative =
          SizesWithReaders(*region.node, graph, readers, program);
  }
}

}  // namespace

Result<ProgramPlan> PlanProgram(const Graph& graph, const PlanOptions& options,
                                std::vector<IndexSite>& sites) {
  ProgramPlan program;
  program.target = options.target;
  std::vector<PlannedRegion> regions;
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
    regions.push_back({node.get(), program.steps.size(), variants.size()});
    for (Step& step : kernels.Plan(variants, sites)) program.steps.push_back(std::move(step));
    ++number;
  }
  IdleSteps(graph, regions, program);
  LaunchDependently(options, regions, program);
  return program;
}

}  // namespace fusec
