#pragma once

#include <string>

#include "compiler/kernel/kernel_builder.h"

namespace fusec {

// What kernels of all classes say: sizes of blocks, loops over their shares, coordinates.

// Threads of a block: 256 unless the kernel's shape says otherwise.
int GpuBlockSize(const KernelBuilder& builder);
// Elements of a block on the CPU: unless the shape says otherwise about 64 KB of floats, which is
// enough to hand to another core.
int64_t CpuBlockElements(const KernelBuilder& builder);

// The kernel's constant that holds its plan's block size.
CExpr BlockSizeName(KernelBuilder& builder);

// blockIdx.x, wide enough to be multiplied.
CExpr BlockNumber(const KernelBuilder& builder);
// A size, or an expression of ints, as an argument of min, which wants both to be of the index
// type.
CExpr WriteSize(KernelBuilder& builder, const Expr& size, const SizeNames& names);
CExpr WriteSize(KernelBuilder& builder, const CExpr& size);

// `shared_memory`, the bytes that the kernel is given at launch.
void DeclareBytesOfLaunch(KernelBuilder& builder);
// `memory`, a Shape::Memory of the plan's shared bytes.
void DeclareSharedMemory(KernelBuilder& builder);

// Coordinates of position `flat` in a row-major `dims`, as named locals; `names` are those of the
// dims' sizes, if these are not just counts of coordinates.
Exprs Coordinates(KernelBuilder& builder, const Expr& flat, ShapeRef dims,
                  const std::string& prefix);
Exprs Coordinates(KernelBuilder& builder, const Expr& flat, ShapeRef dims,
                  const std::string& prefix, const SizeNames& names);
// for (long long row = first_row; row < last_row; ++row) and the like, still without a body;
// variables count by ones, or by `step`.
Statement LoopHeader(KernelBuilder& builder, const std::string& variable, const CExpr& first,
                     const CExpr& last, const CExpr& step = {});
// The same of an int, up to where `condition` does not hold any more.
Statement IntLoopHeader(const std::string& variable, const CExpr& first, const CExpr& condition,
                        const CExpr& step = {});

// buffer + row * kColumns
CExpr PointerTo(KernelBuilder& builder, const CExpr& buffer, const Expr& offset,
                const SizeNames& names);

// Vector<float, kLanes>
CExpr VectorType(const std::string& element, const CExpr& lanes);

// What memory holds for a local of `dtype`: ToHalf(x), ToBFloat16(x) or x itself.
CExpr ToMemory(const CExpr& value, Dtype dtype);

}  // namespace fusec
