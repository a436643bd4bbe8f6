#pragma once

#include <cstdint>

namespace onnx {
class ModelProto;
}

namespace fusec {

// The number of nodes that the graph has, including branches and loop bodies, after calls of the
// model's own functions are inlined. It can be exponential: forty functions that each call the
// previous one twice expand to 2^40 nodes. Counting stops at `most`; calls nested more than 1000
// deep count as `most`, too. A recursive call counts as one node.
int64_t InlinedNodes(const onnx::ModelProto& model, int64_t most);

}  // namespace fusec
