#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace onnx {
class GraphProto;
}

namespace fusec {

class Problems;

// Every tensor that a graph's nodes (and the graphs nested in them) or its outputs read.
std::set<std::string> UsedTensors(const onnx::GraphProto& graph);

// The nodes that the outputs of `graph` depend on, as indices in an order in which every tensor is
// made before it is read: the file's own order where that is good, as ONNX demands. Adds to
// `problems` every tensor that is defined twice or nowhere, and the nodes of a cycle; then the
// order is meaningless. `is_outer` knows the tensors of the enclosing graphs.
std::vector<int> OrderNodes(const onnx::GraphProto& graph,
                            const std::function<bool(const std::string&)>& is_outer,
                            Problems& problems);

}  // namespace fusec
