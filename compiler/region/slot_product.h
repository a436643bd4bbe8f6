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

// Whether the kernel of a layer may add what a slot's matrices make, while its sums are in
// registers (slot_addend.cuh): halves, few terms, and matrices that lie along these.
bool MayBeSlotAddend(const Node& slot_matmul);
// The product of slots that `add` adds to `product`, if it may do so; null for any other op.
const Node* SlotAddendOf(const Node& add, const Node& product);

}  // namespace fusec
