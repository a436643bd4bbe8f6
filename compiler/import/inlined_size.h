#pragma once

#include <cstdint>

namespace onnx {
class ModelProto;
}

namespace fusec {

// The number of nodes of the graph, including branches and bodies, after calls of the model's own
// functions are inlined: forty functions that each call the previous one twice make 2^40. Counting
// stops at `most`; calls nested more than 1000 deep count as `most`, too. A function that calls
// itself counts as one node.
int64_t InlinedNodes(const onnx::ModelProto& model, int64_t most);

}  // namespace fusec
