#pragma once

#include <string>

#include "compiler/kernel/kernel_builder.h"

namespace fusec {

// Code that kernels of all classes contain: block sizes, loops over the share of a block,
// coordinates.

// Threads per block on a GPU: 256 unless the launch shape says otherwise.
int GpuBlockSize(const KernelBuilder& builder);
// Elements per block on the CPU: unless the launch shape says otherwise, about 64 KB of floats,
// which is enough work for another core.
int64_t CpuBlockElements(const KernelBuilder& builder);

// The constant of the kernel with the block size of its plan.
CExpr BlockSizeName(KernelBuilder& builder);

// blockIdx.x, converted to a type in which products with it do not overflow.
CExpr BlockNumber(const KernelBuilder& builder);
// Writes a size, or an expression of ints, as an argument of min. Both arguments of min must have
// the index type.
CExpr WriteSize(KernelBuilder& builder, const Expr& size, const SizeNames& names);
CExpr WriteSize(KernelBuilder& builder, const CExpr& size);

// Declares `shared_memory`, the dynamic shared memory of the kernel, in bytes.
void DeclareBytesOfLaunch(KernelBuilder& builder);
// Declares `memory`, a Shape::Memory in the dynamic shared memory.
void DeclareSharedMemory(KernelBuilder& builder);

// Declares locals with the coordinates of position `flat` in a row-major tensor of `dims`. `names`
// are the names of the sizes; without it they are named after the coordinates.
Exprs Coordinates(KernelBuilder& builder, const Expr& flat, ShapeRef dims,
                  const std::string& prefix);
Exprs Coordinates(KernelBuilder& builder, const Expr& flat, ShapeRef dims,
                  const std::string& prefix, const SizeNames& names);
// A loop header such as for (long long row = first_row; row < last_row; ++row), without a body. The
// variable is incremented by 1, or by `step`.
Statement LoopHeader(KernelBuilder& builder, const std::string& variable, const CExpr& first,
                     const CExpr& last, const CExpr& step = {});
// The same for a variable of type int; the loop runs as long as `condition` holds.
Statement IntLoopHeader(const std::string& variable, const CExpr& first, const CExpr& condition,
                        const CExpr& step = {});

// buffer + row * kColumns
CExpr PointerTo(KernelBuilder& builder, const CExpr& buffer, const Expr& offset,
                const SizeNames& names);

// Vector<float, kLanes>
CExpr VectorType(const std::string& element, const CExpr& lanes);

// Converts a local of `dtype` to its type in memory: ToHalf(x), ToBFloat16(x) or x itself.
CExpr ToMemory(const CExpr& value, Dtype dtype);

}  // namespace fusec
