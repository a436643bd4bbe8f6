#pragma once

#include "compiler/kernel/idioms.h"
#include "compiler/kernel/kernel_builder.h"
#include "compiler/kernel/region_lowering.h"
#include "compiler/kernel/size_names.h"
#include "compiler/plan/plan_program.h"

namespace fusec {

// Each function plans one kernel, for the region classes in its comment. These functions make all
// decisions about loops, blocks and chunks.
KernelPlan PlanLoop(const Node& region, KernelBuilder& builder);  // pointwise, gather_concat
// The same for a sum whose blocks find the updates of their rows (region/found_sum.h).
KernelPlan PlanFoundSum(const Node& region, KernelBuilder& builder);
KernelPlan PlanRowReduction(const Node& region,
                            KernelBuilder& builder);  // row_reduction, matmul
// block_program. A block computes as many rows as keep its threads busy, or as its launch shape
// requests, as far as they fit.
KernelPlan PlanBlockProgram(const Node& region, const PlanOptions& options, KernelBuilder& builder);
// attention. options.matmul_precision is that of f32 products.
KernelPlan PlanAttention(const Node& region, const PlanOptions& options, KernelBuilder& builder);
// Products with adapter slots, on a GPU. A block computes as many rows as its launch shape
// requests, by default kFewRowsOfSlots.
KernelPlan PlanSlotMatMul(const Node& region, const PlanOptions& options, KernelBuilder& builder);
inline constexpr int64_t kFewRowsOfSlots = 16, kManyRowsOfSlots = 64, kMostColumnsOfSlots = 128;
// How many blocks of a cluster split the depth of each tile of such a product: 1 if the GPU has no
// clusters, and for short sums or many columns.
int ClusterOfSlots(const Node& slot_matmul, const PlanOptions& options);
KernelPlan PlanSequential(const Node& region, KernelBuilder& builder);  // scan, sort, scatter
// Sorts: top_k; and searches in sorted lines: merge_sorted and lower_bounds.
KernelPlan PlanSort(const Node& region, KernelBuilder& builder);
KernelPlan PlanSearch(const Node& region, KernelBuilder& builder);
// Passes of a radix sort, on a GPU: digit_counts and order_by_digit.
KernelPlan PlanDigits(const Node& region, KernelBuilder& builder);
// recurrence: the steps of a GRU, LSTM or RNN layer.
KernelPlan PlanRecurrence(const Node& region, const PlanOptions& options, KernelBuilder& builder);

// Functions that several planners share:

// The template argument Arithmetic of products on tensor cores. `precision` is that of f32
// products.
CExpr TensorCoreArithmetic(Dtype dtype, const std::string& precision);
// Chooses `int` as the index type if every position fits in it, else `long long`. The CPU always
// uses long long.
void ChooseIndexType(const Node& region, KernelBuilder& builder);
// Sets the bytes that the kernel must move and the operations that it must execute. Operands are
// read once (of gathered tables, only the gathered rows), and results are written once.
void CountTraffic(const Node& region, KernelPlan& plan);
}  // namespace fusec
