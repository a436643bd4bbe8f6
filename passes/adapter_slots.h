#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Keeps low-rank adapters (low_rank_adapter.h) apart from their layers, in slots of which every
// row of the batch chooses one (PassOptions::adapters). The graph gets an input `adapter_id`,
// i32[batch]: the slot, or -1 for none.
//
//   %sum = add(%base, %scaled)   =>   %down  = slot_matmul(%x, %lora_A, %adapter_id)
//                                     %delta = slot_matmul(%down, %lora_B, %adapter_id)
//                                     %sum   = add(%base, %delta)
//
// lora_A is [slots, inputs, rank] and lora_B [slots, outputs, rank], with the rank made a multiple
// of 8. Slot 0 holds the model's own
// adapter, with its scale multiplied into lora_B and rounded once more; the others hold zeros.
// Where rows of a layer are the product of the batch and other sizes, all those of one row of the
// batch get its adapter. Reports each layer to PassReport::adapter_sites. An error if there is no
// adapter, one of more than `rank` columns, or one whose rows are no multiple of the batch.
Result<bool> KeepAdapterSlots(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
