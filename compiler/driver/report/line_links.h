#pragma once

#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// What a line of text stands for, so that a page can show a line, an op and a node of the model
// together. Lines count from 0.

// A line of Print(graph).
struct IrLine {
  std::optional<size_t> region;  // the line belongs to this region of the graph
  std::optional<size_t> op;      // and is this node of the region's body
  const Value* value = nullptr;  // or is this constant of the graph
};

// One entry for every line of `text`, which is Print(graph).
std::vector<IrLine> LinkIrLines(std::string_view text, const Graph& graph);

// The lines of a kernel's code that make or read a value of `body`, each with the positions of
// those nodes in the body. Locals carry the names of tensors ("sum", "sum_value", "sum_rows"), so
// a statement belongs to the nodes whose values it assigns, or else to those that it names. A
// comment belongs to the statement behind it; where that names no value, the ops count that the
// comment lists. The values of the body's inputs stand for the nodes that read them.
std::map<size_t, std::vector<size_t>> LinkCodeLines(std::string_view code, const Graph& body);

}  // namespace fusec
