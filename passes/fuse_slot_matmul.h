#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Makes regions of products by slots' matrices (slot_matmul) that tensor cores take
// (region/slot_product.h), each with the views in front of its rows and the pointwise ops behind
// it. Others are left to fuse-pointwise, which makes each element in a loop of its own.
Result<bool> FuseSlotMatMul(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
