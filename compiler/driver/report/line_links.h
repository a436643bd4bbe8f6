#pragma once

#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// Finds the ops to which lines of text belong, so that a page can highlight a line, an op and a
// node of the model together. Lines are counted from 0.

// A line of Print(graph), and what of the graph it shows.
struct IrLine {
  std::optional<size_t> region;  // the region of the graph to which the line belongs
  std::optional<size_t> op;      // the node of the region's body that the line defines
  const Value* value = nullptr;  // the constant of the graph that the line defines
};

// One entry for every line of `text`, which is Print(graph).
std::vector<IrLine> LinkIrLines(std::string_view text, const Graph& graph);

// The lines of a kernel's code that compute or read a value of `body`, each with the indices of
// those nodes in the body. The names of locals begin with those of tensors ("sum", "sum_value",
// "sum_rows"), so a statement belongs to the nodes whose values it assigns, or otherwise to those
// whose values it names. A comment belongs to the statement after it. If that names no value, the
// statement belongs to the ops that the comment lists. Inputs of the body stand for the nodes that
// read them.
std::map<size_t, std::vector<size_t>> LinkCodeLines(std::string_view code, const Graph& body);

}  // namespace fusec
