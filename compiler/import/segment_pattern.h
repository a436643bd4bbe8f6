#pragma once

#include <onnx/onnx_pb.h>

namespace fusec {

// Recognizes what tf2onnx writes for tf.math.segment_sum and its relatives, embedding_lookup_sparse
// among them, for which ONNX has no op: a table of the rows of each segment, of which the longest
// one decides how wide it is, filled up with a row that changes nothing.
//
//   sorted, order = TopK<largest = 0>(ids, Shape(ids))
//   _, _, group, counts = Unique(sorted)
//   place = Concat(Unsqueeze(sorted), Unsqueeze(Mod(Range(0, n), Gather(counts, group))))
//   table = ScatterND(ConstantOfShape<-1>(Concat(segments, ReduceMax(counts))), place, order)
//   y = ReduceSum(Gather(Concat(x, neutral), table), axes = [1])
//     =>  number = tensorflow.SegmentsOf(segments, ids)
//         y = tensorflow.SegmentReduce<reduction = "add">(x, neutral, ids, number)
//
//   size = ScatterElements(ConstantOfShape<1>(segments), values, counts)   values: output 0 of Unique
//     =>  size = tensorflow.SegmentSizes<of_empty = 1>(ids, number)
//
// Nodes that nobody reads any more stay; they are not imported.
void RecognizeSegments(onnx::GraphProto& graph);

}  // namespace fusec
