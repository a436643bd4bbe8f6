#pragma once

#include "compiler/import/graph_import.h"

namespace fusec {

// Replaces a Loop that pools embedding bags by a segment_reduce in the graph around it; both ONNX
// exporters of PyTorch write nn.EmbeddingBag as such a loop. Any other loop is an error that names
// the node and what is not recognized:
//
//   for i in 0..bags-1: y[i] = reduce(f(ids[offsets[i] : offsets[i + 1]]), axis 0)
//     =>  y = segment_reduce(f(ids), offsets, offsets[1:])
//
// An EmbeddingBag with padding_idx is such an error. The TorchScript exporter refuses that option.
// The dynamo exporter writes an inner loop over the ids of a bag that appends the positions of all
// other ids to a tensor that grows in each iteration; fusec does not support such a loop-carried
// tensor. If the padding row is all zeros, as PyTorch initializes and keeps it, a sum without the
// option gives the same result.
//
// `results` gets one value per output of the node. It is null for an output that is a sequence of
// rows; the sequence is added to `scope`.
Result<void> ImportLoop(onnx::NodeProto& node, ImportState& state, Scope& scope,
                        ValueList& results);

}  // namespace fusec
