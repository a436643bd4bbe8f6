#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/support/adt.h"

namespace onnx {
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace fusec {

class Problems;

// The names of all tensors that the graph's outputs, its nodes, or the graphs nested in these read.
std::set<std::string> UsedTensors(const onnx::GraphProto& graph);

// The nodes that the outputs of `graph` depend on, as indices in topological order. If the file's
// own order is valid, as ONNX requires, it is kept. Adds to `problems` every tensor that is defined
// twice or nowhere, and the nodes of a cycle; the order is then meaningless. `is_outer` tells
// whether an enclosing graph defines a tensor.
std::vector<int> OrderNodes(const onnx::GraphProto& graph,
                            function_ref<bool(const std::string&)> is_outer, Problems& problems);

// The tensors of enclosing graphs that the subgraphs of a node read.
std::set<std::string> CapturesOf(const onnx::NodeProto& node);

}  // namespace fusec
