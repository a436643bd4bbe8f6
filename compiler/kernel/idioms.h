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
std::string BlockSizeName(KernelBuilder& builder);

// "blockIdx.x", wide enough to be multiplied.
std::string BlockNumber(const KernelBuilder& builder);
// A size, or a text of ints, as an argument of min, which wants both to be of the index type.
std::string WriteSize(KernelBuilder& builder, const Expr& size, const SizeNames& names);
std::string WriteSize(KernelBuilder& builder, const std::string& text);

// `memory`, a Shape::Memory of the plan's shared bytes.
void DeclareSharedMemory(KernelBuilder& builder);

// Coordinates of position `flat` in a row-major `dims`, as named locals; `names` are those of the
// dims' sizes, if these are not just counts of coordinates.
Exprs Coordinates(KernelBuilder& builder, const Expr& flat, ShapeRef dims,
                              const std::string& prefix);
Exprs Coordinates(KernelBuilder& builder, const Expr& flat, ShapeRef dims,
                              const std::string& prefix, const SizeNames& names);
// "for (long long row = first_row; row < last_row; ++row)" and the like, without the for.
std::string LoopHeader(KernelBuilder& builder, const std::string& variable,
                       const std::string& first, const std::string& last,
                       const std::string& step = "");

}  // namespace fusec
