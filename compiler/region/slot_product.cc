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

}  // namespace fusec
