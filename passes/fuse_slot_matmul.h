#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Makes a region of each product by the matrices in slots (slot_matmul) that tensor cores can
// compute (region/slot_product.h), together with the views that make its rows and the pointwise ops
// after it. Other such products are left to fuse-pointwise, which computes each element in a loop
// of its own.
//
// A product with few terms that is added to a layer's product is left to fuse-matmul-tail, whose
// kernel adds these terms to its own sums. The second run of this pass takes those that
// fuse-matmul-tail did not take.
Result<bool> FuseSlotMatMul(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
