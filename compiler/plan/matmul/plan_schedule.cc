#include "compiler/plan/matmul/plan_schedule.h"

#include "compiler/plan/matmul/product_planner.h"
#include "compiler/plan/plan_region.h"

namespace fusec {

namespace {

struct StepPlanner {
  const Node& region;
  const MatMulPlan& matmul;
  const MatMulSchedule& schedule;
  const PlanOptions& options;
  KernelBuilder& builder;
  Step& step;

  void operator()(const schedule::Library& library) const {
    step.is_matmul = true;
    step.matmul = matmul;
    step.matmul.algorithm = library.algorithm;
    step.matmul.name = builder.plan().name;
    step.matmul.ops = builder.plan().ops;
    step.matmul.provenance = builder.plan().provenance;
  }
  void operator()(const schedule::Plain&) const { step.kernel = PlanRowReduction(region, builder); }
  void operator()(const schedule::Rows& rows) const {
    if (options.target == TargetKind::kCpu)
      step.kernel = PlanMatMulColumns(region, matmul, rows, builder);
    else if (rows.tensor_cores)
      step.kernel = PlanMatMulFewRows(region, matmul, rows, options, builder);
    else
      step.kernel = PlanMatMulRows(region, matmul, rows, builder);
  }
  void operator()(const schedule::Tile&) const { PlanTile(); }
  void operator()(const schedule::Warpgroup&) const { PlanTile(); }

  void PlanTile() const {
    step.kernel = PlanMatMulTile(region, matmul, schedule, options, builder);
  }
};

}  // namespace

void PlanMatMulStep(const Node& region, const MatMulPlan& matmul, const MatMulSchedule& schedule,
                    const PlanOptions& options, KernelBuilder& builder, Step& step) {
  std::visit(StepPlanner{region, matmul, schedule, options, builder, step}, schedule);
}

}  // namespace fusec
