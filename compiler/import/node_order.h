#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/support/adt.h"

namespace onnx {
class GraphProto;
class NodeProto;
}

namespace fusec {

class Problems;

// Every tensor that a graph's nodes (and the graphs nested in them) or its outputs read.
std::set<std::string> UsedTensors(const onnx::GraphProto& graph);

// The nodes that the outputs of `graph` depend on, as indices in an order in which every tensor is
// made before it is read. That is the file's own order if it is valid, as ONNX demands. Adds to
// `problems` every tensor that is defined twice or nowhere, and the nodes of a cycle; the order is
// then meaningless. `is_outer` tells which tensors the enclosing graphs define.
std::vector<int> OrderNodes(const onnx::GraphProto& graph,
                            function_ref<bool(const std::string&)> is_outer, Problems& problems);

// The tensors of enclosing graphs that the subgraphs of a node read.
std::set<std::string> CapturesOf(const onnx::NodeProto& node);

}  // namespace fusec
