#include "compiler/region/slot_product.h"

#include "compiler/support/check.h"

namespace fusec {

bool TakesSlotKernel(const Node& slot_matmul) {
  constexpr int64_t kStep = 8, kElementsOfSmall = 2048;
  const Dtype dtype = slot_matmul.result()->type.dtype;
  const int64_t terms = slot_matmul.operand(0)->type.shape.back().AsConstant().value_or(0);
  const int64_t columns = slot_matmul.result()->type.shape.back().AsConstant().value_or(0);
  return dtype != Dtype::kF64 && terms % kStep == 0 && columns % kStep == 0 &&
         terms * columns > kElementsOfSmall;
}

const Node& SlotProductOf(const Node& region) {
  for (const auto& node : region.body->nodes) {
    if (node->kind == OpKind::kSlotMatMul) return *node;
  }
  FUSEC_CHECK(false, "no slot_matmul in a region of that class");
}

int64_t WorkOfSlotProducts(const Node& region) {
  constexpr int64_t kTermsOfElement = 8;  // that take as long as an element
  int64_t terms = 0;
  for (const auto& node : region.body->nodes) {
    if (node->kind != OpKind::kSlotMatMul) continue;
    const auto columns = node->result()->type.shape.back().AsConstant();
    const auto depth = node->operand(0)->type.shape.back().AsConstant();
    terms += columns.value_or(0) * depth.value_or(0);
  }
  return terms / kTermsOfElement;
}

bool MayBeSlotAddend(const Node& slot_matmul) {
  constexpr int64_t kStep = 8;
  const TensorType& type = slot_matmul.result()->type;
  const auto terms = slot_matmul.operand(0)->type.shape.back().AsConstant();
  return (type.dtype == Dtype::kF16 || type.dtype == Dtype::kBF16) &&
         slot_matmul.Int("transpose_b") != 0 && terms.value_or(0) > 0 &&
         *terms <= kMostAddendTerms && *terms % kStep == 0;
}

const Node* SlotAddendOf(const Node& add, const Node& product) {
  if (add.kind != OpKind::kAdd || product.kind != OpKind::kMatMul) return nullptr;
  for (const int side : {0, 1}) {
    const Node* addend = add.operand(side)->producer;
    const bool adds = add.operand(1 - side) == product.result() && addend != nullptr &&
                      addend->kind == OpKind::kSlotMatMul && MayBeSlotAddend(*addend);
    if (adds && addend->result()->type.shape == product.result()->type.shape) return addend;
  }
  return nullptr;
}

}  // namespace fusec
