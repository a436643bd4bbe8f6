#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Keeps low-rank adapters (low_rank_adapter.h) apart from their layers, in slots
// (PassOptions::adapters). Each row of the batch chooses a slot: the graph gets an input
// `adapter_id`, i32[batch], which holds the number of the slot, or -1 for no adapter.
//
//   %sum = add(%base, %scaled)   =>   %down  = slot_matmul(%x, %lora_A, %adapter_id)
//                                     %delta = slot_matmul(%down, %lora_B, %adapter_id)
//                                     %sum   = add(%base, %delta)
//
// A bias of the layer is added behind the delta, since kernels of layers add a delta to their sums.
// lora_A is [slots, inputs, rank] and lora_B is [slots, outputs, rank], with the rank rounded up to
// a multiple of 8. Slot 0 holds the model's own adapter, with its scale multiplied into lora_B and
// rounded once more; the other slots hold zeros. A layer may have several rows for each row of the
// batch, such as one per token; all of these use the adapter of their row of the batch. Reports
// each layer to PassReport::adapter_sites. It is an error if the model has no adapter, an adapter
// of a rank above `rank`, or a layer whose number of rows is not a multiple of the batch.
Result<bool> KeepAdapterSlots(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
