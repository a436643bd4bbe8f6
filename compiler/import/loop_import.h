#pragma once

#include "compiler/import/graph_import.h"

namespace fusec {

// Replaces a Loop that pools embedding bags by a segment_reduce in the graph around it; both
// exporters of torch write nn.EmbeddingBag as such a loop. Every other loop gives an error that
// names the node and what is not recognised:
//
//   for i in 0..bags-1: y[i] = reduce(f(ids[offsets[i] : offsets[i + 1]]), axis 0)
//     =>  y = segment_reduce(f(ids), offsets, offsets[1:])
//
// An EmbeddingBag with padding_idx gives such an error. TorchScript's exporter refuses that option.
// The dynamo exporter writes an inner loop over the ids of a bag, which appends the positions of
// all other ids to a tensor that grows in each iteration, and fusec has no tensor whose shape
// depends on data. If the padding row is zeros, as torch initialises and keeps it, a sum without
// the option gives the same result.
//
// `results` gets one value per output of the node, and null for an output that is a sequence of
// rows, which is added to `scope`.
Result<void> ImportLoop(onnx::NodeProto& node, ImportState& state, Scope& scope,
                        ValueList& results);

}  // namespace fusec
