#pragma once

#include "passes/graph_edit.h"

namespace fusec {

// Makes a region of a product by constant weights and all pointwise ops of its shape after it (its
// epilogue): residuals, gates, activations, rows that are looked up by ids, several results. It
// does so only for targets for which fusec generates product kernels, and only where these are no
// slower than the library at any size: f32 products of precision "highest", and products of TF32,
// f16 and bf16 whose epilogue would otherwise be a kernel of its own, if their sums are short or
// they look rows up. It takes what slots' adapters add (slot_product.h) into the kernel. Other
// products take the epilogue that cuBLASLt computes in the same call, which may add a tensor of the
// product's shape after the bias. Epilogues that every library has are left to
// fuse-matmul-epilogue.
Result<bool> FuseMatMulTail(Graph& graph, const PassOptions& options, PassReport& report);

// Adds to a product's group the pointwise ops of its `shape` behind it, as long as nothing else
// lies between, and reshapes of what they give that nobody else reads.
void AddTail(const Graph& graph, const ReaderMap& readers, ShapeRef shape, NodeSet& group);

}  // namespace fusec
