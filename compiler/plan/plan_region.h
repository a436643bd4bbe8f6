#pragma once

#include "compiler/plan/kernel_builder.h"
#include "compiler/plan/plan_program.h"
#include "compiler/plan/region_lowering.h"
#include "compiler/plan/size_names.h"

namespace fusec {

struct MatMulKernel;

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
KernelPlan PlanSequential(const Node& region, KernelBuilder& builder);  // scan, sort, scatter
KernelPlan PlanMatMulKernel(const Node& region, const MatMulPlan& matmul,
                            const MatMulKernel& kernel, const std::string& precision,
                            KernelBuilder& builder);

// Shared by them.

// Threads of a block: 256 unless the kernel's shape says otherwise.
int GpuBlockSize(const KernelBuilder& builder);
// Elements of a block on the CPU: unless the shape says otherwise about 64 KB of floats, which is
// enough to hand to another core.
int64_t CpuBlockElements(const KernelBuilder& builder);

// The kernel's constant that holds its plan's block size.
const std::string& BlockSizeName(KernelBuilder& builder);

// "blockIdx.x", wide enough to be multiplied.
std::string BlockNumber(const KernelBuilder& builder);
// A size, or a text of ints, as an argument of min, which wants both to be of the index type.
std::string WriteSize(KernelBuilder& builder, const Expr& size);
std::string WriteSize(KernelBuilder& builder, const std::string& text);

// The template argument of products on tensor cores; those of f32 are as `precision` says.
std::string TensorCoreArithmetic(Dtype dtype, const std::string& precision);
// `memory`, a Shape::Memory of the plan's shared bytes.
void DeclareSharedMemory(KernelBuilder& builder);

// `int` where every position fits it, else `long long`; the CPU always counts in long long.
void ChooseIndexType(const Node& region, KernelBuilder& builder);
// Bytes that must move and operations that must be done: operands once (gathered tables: the rows
// taken), results once.
void CountTraffic(const Node& region, KernelPlan& plan);
// Coordinates of position `flat` in a row-major `dims`, as named locals.
std::vector<Expr> Coordinates(KernelBuilder& builder, const Expr& flat, const Shape& dims,
                              const std::string& prefix);
// "for (long long row = first_row; row < last_row; ++row)" and the like, without the for.
std::string LoopHeader(KernelBuilder& builder, const std::string& variable,
                       const std::string& first, const std::string& last,
                       const std::string& step = "");

}  // namespace fusec
