#pragma once

#include <cstdint>

namespace onnx {
class ModelProto;
}

namespace fusec {

// The nodes of the graph, those of branches and bodies included, once calls of the model's own
// functions are replaced by their bodies: forty functions that each call the one before twice make
// 2^40. Stops counting at `most`, which calls nested more than 1000 deep are, too. A function that
// calls itself counts as one node.
int64_t InlinedNodes(const onnx::ModelProto& model, int64_t most);

}  // namespace fusec
