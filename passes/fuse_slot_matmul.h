#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Makes regions of products by slots' matrices (slot_matmul) that tensor cores take
// (region/slot_product.h), each with the views in front of its rows and the pointwise ops behind
// it. Others are left to fuse-pointwise, which makes each element in a loop of its own.
//
// A product of few terms that is added to a layer's is left to fuse-matmul-tail, whose kernel adds
// it to its sums; a bias of the layer is then added behind it. Only where that pass did not take it
// does the second run of this one.
Result<bool> FuseSlotMatMul(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
