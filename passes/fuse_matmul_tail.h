#pragma once

#include "compiler/region/product.h"
#include "passes/graph_edit.h"

namespace fusec {

// Makes a region of a product by constant weights and all pointwise ops of its shape after it (its
// epilogue): residuals, gates, activations, rows that are looked up by ids, several results. It
// does so only for targets for which fusec generates product kernels, and only where these are no
// slower than the library at any size: for f32 products of precision "highest", and for products of
// TF32, f16 and bf16 whose epilogue would otherwise be a kernel of its own, if their sums are short
// or the epilogue looks rows up. The terms that adapters in slots add to a layer (slot_product.h)
// join the kernel. Other products get the epilogue that cuBLASLt computes in the same call, which
// may add a tensor of the product's shape after the bias. Epilogues that every library supports are
// left to fuse-matmul-epilogue.
Result<bool> FuseMatMulTail(Graph& graph, const PassOptions& options, PassReport& report);

// Whether generated kernels of f32 products of precision "highest" are no slower than the library
// at any number of rows.
bool IsAheadOfLibrary(const ProductShape& product);

// Adds to the group of a product the pointwise ops of shape `shape` that follow it, as long as
// nothing else lies in between, and reshapes of their results that have no other reader.
void AddTail(const Graph& graph, const ReaderMap& readers, ShapeRef shape, NodeSet& group);

}  // namespace fusec
