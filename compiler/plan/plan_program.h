#pragma once

#include <cstddef>
#include <map>

#include "compiler/plan/program_plan.h"
#include "compiler/support/gpu.h"

namespace fusec {

struct Winner;
using Tuning = std::map<size_t, std::vector<Winner>>;  // see region_kernels.h

struct PlanOptions {
  TargetKind target = TargetKind::kCpu;
  std::string matmul_precision = "highest";  // highest, high, medium: of f32 products
  const Gpu* gpu = nullptr;                  // of kGpu
  const Tuning* tuning = nullptr;            // what was measured; null for nothing
  // Nothing that decides bits of a row may depend on the batch: each region has one kernel for all
  // sizes, and no product goes to a library whose order of sums depends on the number of rows.
  bool batch_invariant = false;
};

// Whether tensor cores take TF32 and bfloat16, and copies fill shared memory in the background.
inline bool HasTensorCores(const PlanOptions& options) {
  return options.target == TargetKind::kGpu && options.gpu->has.tensor_cores &&
         options.gpu->has.async_copies;
}

// Plans every region of a fused graph (constants and regions only) for one target. `sites` collects
// the places where data chooses an index; both targets of a program share the list.
Result<ProgramPlan> PlanProgram(const Graph& graph, const PlanOptions& options,
                                std::vector<IndexSite>& sites);

// The only matmul of a region of floats, if its right operand is the region's own, but for
// reshapes, and the left one, too, or made inside it; without what stands behind it.
std::optional<MatMulPlan> PlanProduct(const Node& region);

// The whole region as a call of the target's library, where that takes its types and layout;
// nullopt sends it to a generated kernel.
std::optional<MatMulPlan> PlanLibraryMatMul(const Node& region, TargetKind target);

}  // namespace fusec
