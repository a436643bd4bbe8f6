#pragma once

#include "compiler/kernel/idioms.h"
#include "compiler/kernel/kernel_builder.h"
#include "compiler/kernel/region_lowering.h"
#include "compiler/kernel/size_names.h"
#include "compiler/plan/plan_program.h"

namespace fusec {

// One kernel per function, from a region whose class asks for it. All decisions about loops, blocks
// and chunks are made here.
KernelPlan PlanLoop(const Node& region, KernelBuilder& builder);  // pointwise, gather_concat
KernelPlan PlanRowReduction(const Node& region,
                            KernelBuilder& builder);  // row_reduction, and matmuls no library takes
// A block owns as many rows as keep its threads busy, and those that its shape asks for, if these
// fit.
KernelPlan PlanBlockProgram(const Node& region, const PlanOptions& options, KernelBuilder& builder);
// Products of f32 are as `precision` says (PlanOptions).
KernelPlan PlanAttention(const Node& region, const PlanOptions& options, KernelBuilder& builder);
// Of a GPU. A block makes as many rows as its shape asks for, kFewRowsOfSlots by itself.
KernelPlan PlanSlotMatMul(const Node& region, const PlanOptions& options, KernelBuilder& builder);
inline constexpr int64_t kFewRowsOfSlots = 16, kManyRowsOfSlots = 64, kMostColumnsOfSlots = 128;
// How many blocks of a cluster share out the depth of each tile: 1 where a GPU has none, and for
// short sums or many columns.
int ClusterOfSlots(const Node& slot_matmul, const PlanOptions& options);
KernelPlan PlanSequential(const Node& region, KernelBuilder& builder);  // scan, sort, scatter
// Steps of GRU, LSTM, RNN.
KernelPlan PlanRecurrence(const Node& region, const PlanOptions& options, KernelBuilder& builder);

// Shared by them.

// The template argument of products on tensor cores; those of f32 are as `precision` says.
CExpr TensorCoreArithmetic(Dtype dtype, const std::string& precision);
// `int` where every position fits it, else `long long`; the CPU always counts in long long.
void ChooseIndexType(const Node& region, KernelBuilder& builder);
// Bytes that must move and operations that must be done: operands once (gathered tables: the rows
// taken), results once.
void CountTraffic(const Node& region, KernelPlan& plan);
}  // namespace fusec
