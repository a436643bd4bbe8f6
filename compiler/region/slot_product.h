#pragma once

#include "compiler/ir/graph.h"

namespace fusec {

// Operands of slot_matmul (compiler/ops/slot_matmul.cc).
inline constexpr int kBankOfProduct = 1, kSlotsOfProduct = 2;

// Whether the kernel of slot_matmul.cuh makes it: a product of f32, f16 or bf16 whose rows and
// columns are multiples of 8, by matrices too large for fuse-block-program.
bool TakesSlotKernel(const Node& slot_matmul);
// The product of a region of class slot_matmul.
const Node& SlotProductOf(const Node& region);

}  // namespace fusec
