#pragma once

#include "compiler/ir/graph.h"

namespace fusec {

// Operand indices of slot_matmul (compiler/ops/slot_matmul.cc).
inline constexpr int kBankOfProduct = 1, kSlotsOfProduct = 2;

// Whether the kernel of slot_matmul.cuh can compute the product: its dtype is f32, f16 or bf16, its
// numbers of terms and columns are multiples of 8, and its matrices are too large for the pass
// fuse-block-program.
bool TakesSlotKernel(const Node& slot_matmul);
// The slot_matmul node of a region of class slot_matmul.
const Node& SlotProductOf(const Node& region);
// How long a CPU takes for one row of the slot products of a region, in elements of a result.
int64_t WorkOfSlotProducts(const Node& region);

// Whether the kernel of a layer may add the product by a slot's matrices while its sums are still
// in registers (slot_addend.cuh): the dtype has 16 bits, there are at most kMostAddendTerms terms, a
// multiple of 8, and the matrices are stored with the terms contiguous.
inline constexpr int64_t kMostAddendTerms = 64;
bool MayBeSlotAddend(const Node& slot_matmul);
// The slot_matmul that `add` adds to `product`, if the kernel of `product` may add it; null
// otherwise.
const Node* SlotAddendOf(const Node& add, const Node& product);

}  // namespace fusec
