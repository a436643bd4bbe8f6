#pragma once

#include <optional>
#include <vector>

#include "compiler/region/slot_product.h"
#include "passes/graph_edit.h"
#include "passes/pass_manager.h"

namespace fusec {

// An adapter in slots (adapter_slots.h) of a layer's product:
//
//   %down  = slot_matmul(%x, %lora_A, %slots)
//   %delta = slot_matmul(%down, %lora_B, %slots)
//   %sum   = add(%product, %delta)         with %product = matmul(%x, ...)
//
// where each value but %sum has no other reader, the banks are constants whose elements are known,
// and both products are large enough for kernels of their own (TakesSlotKernel).
struct SlotAdapter {
  Node* sum = nullptr;
  const Node* down = nullptr;
  const Node* delta = nullptr;

  const Value* slots() const { return down->operand(kSlotsOfProduct); }
  int64_t rank() const { return *down->result()->type.shape.back().AsConstant(); }
};

// The adapter of `product`; nullopt if it has none.
std::optional<SlotAdapter> SlotAdapterOf(const Graph& graph, const ReaderMap& readers,
                                         const Node& product);

// A layer among several whose products are joined side by side.
struct JoinedLayer {
  int64_t columns = 0;
  std::optional<SlotAdapter> adapter;
};

// Joins the adapters of layers of the same rows. Returns the joined delta, for the columns of all
// layers, or null if no layer has an adapter. Each slot of the joined lora_B is a block diagonal of
// the layers' own, with zeros elsewhere. The sites of the report become parts of the joined banks.
//
// The terms that this adds to a sum are zeros, but for rows whose lora_A products overflow: there,
// infinity times zero makes NaN of what the row has in all joined layers.
Value* JoinedDelta(Builder& builder, const std::vector<JoinedLayer>& layers, PassReport& report);

}  // namespace fusec
