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
  std::string matmul_precision = "highest";  // of f32 products: highest, high or medium
  const Gpu* gpu = nullptr;                  // if target is kGpu
  const Tuning* tuning = nullptr;            // measured winners; null if nothing was measured
  // The bits of a row of the results must not depend on the batch size: each region has one kernel
  // for all sizes, and no product is computed by a library whose order of summation depends on the
  // number of rows.
  bool batch_invariant = false;
};

// Whether the GPU has tensor cores for TF32 and bfloat16, and asynchronous copies to shared memory
// (cp.async).
inline bool HasTensorCores(const PlanOptions& options) {
  return options.target == TargetKind::kGpu && options.gpu->has.tensor_cores &&
         options.gpu->has.async_copies;
}

// Plans every region of a fused graph (constants and regions only) for one target. `sites` collects
// the places where data selects an index; all targets of a program share the list.
Result<ProgramPlan> PlanProgram(const Graph& graph, const PlanOptions& options,
                                std::vector<IndexSite>& sites);

// The product of a region that has exactly one matmul, of floats, without its epilogue. The right
// operand must be an operand of the region, perhaps reshaped; the left one may also be computed
// inside the region. nullopt for other regions.
std::optional<MatMulPlan> PlanProduct(const Node& region);

// The whole region as a call of the target's library (cuBLASLt or oneDNN); nullopt if the library
// does not support its types, layout or epilogue, so that the region needs a generated kernel.
std::optional<MatMulPlan> PlanLibraryMatMul(const Node& region, TargetKind target);

}  // namespace fusec
