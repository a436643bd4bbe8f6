#pragma once

#include "compiler/import/graph_import.h"

namespace fusec {

// Makes a Loop that pools bags of rows, which is how both exporters of torch write nn.EmbeddingBag,
// a segment_reduce of the graph around it, and every other loop an error that names the node and
// what about it is not recognised:
//
//   for i in 0..bags-1: y[i] = reduce(f(ids[offsets[i] : offsets[i + 1]]), axis 0)
//     =>  y = segment_reduce(f(ids), offsets, offsets[1:])
//
// With padding_idx it is such an error. TorchScript's exporter refuses that option; dynamo's
// writes, inside the loop over bags, one over the ids of a bag that appends the places of all
// others to a tensor which grows from trip to trip, and no tensor of a graph has a shape that data
// decides. Where the padding row is zeros, as torch makes and keeps it, a sum without the option is
// the same.
//
// Results are put into `results`, one per output of the node; null for one that nobody may read.
// An output that is a sequence of rows is added to `state.sequences`.
Result<void> ImportLoop(onnx::NodeProto& node, ImportState& state, const Scope& scope,
                        std::vector<Value*>& results);

}  // namespace fusec
