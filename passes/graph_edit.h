#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/region_class.h"
#include "compiler/support/adt.h"
#include "passes/pass_manager.h"

// Edits that several passes need.
namespace fusec {

// What the model calls a constant. `names`: the model's names, by the graph's; one that is not
// there has the same.
const std::string& ModelName(const Value& constant,
                             const std::map<std::string, std::string>& names);

// Every value's readers, in graph order; looked up only.
using ReaderMap = DenseMap<const Value*, std::vector<Node*>>;
ReaderMap Readers(const Graph& graph);
// Whether exactly one node reads `value` (with one operand or several), and the graph's caller does
// not.
bool HasOneReader(const Graph& graph, const ReaderMap& readers, const Value* value);
// The value of a constant with one element.
std::optional<double> ScalarConstant(const Value* value);
bool IsReduction(const Node& node);
// Whether the node computes each element of a value of that shape by itself.
bool IsPointwise(const Node& node, ShapeRef shape);
bool IsOutput(const Graph& graph, const Value* value);
// Elements of a value if every symbol is 1, for comparing sizes; 0 where that cannot be said.
int64_t ElementsForOnes(const Graph& graph, const Value* value);

// Who reads a value or a node's results, seen from a group of nodes.
struct GroupReaders {
  bool inside = false;   // a node of the group
  bool outside = false;  // another node, or the graph's caller
};
GroupReaders ReadersOf(const Graph& graph, const ReaderMap& readers, const NodeSet& group,
                       const Value* value);
GroupReaders ReadersOf(const Graph& graph, const ReaderMap& readers, const NodeSet& group,
                       const Node& node);

// Tells `report` that `node` stays out of `group`, for every edge between the two.
void Refuse(PassReport& report, const ReaderMap& readers, const NodeSet& group, const Node& node,
            const std::string& reason, const std::string& needed);
// The reason and the need of a node that would make its group not convex.
inline constexpr const char* kBetween = "another kernel runs between the two and needs one of them";
inline constexpr const char* kBetweenNeeded = "that other kernel's ops in the same kernel";

// The concatenation of `parts` along their last axis, with `missing` zeros after each row.
Value* WithZeros(Builder& builder, ValueList parts, int64_t missing, const std::string& name);

// Elements low .. high - 1 of an axis of `x`. Without a name it gets the op's.
Value* Sliced(Builder& builder, Value* x, int64_t axis, int64_t low, int64_t high,
              const std::string& name = "");

// Removes nodes nobody reads, from the end to the start. Returns whether there were any.
bool RemoveDeadNodes(Graph& graph);
// Orders nodes so that operands come before their readers, otherwise as they were.
void SortNodes(Graph& graph);

// Whether a path leaves `group` and comes back: such a group cannot become one node.
bool IsConvex(const Graph& graph, const NodeSet& group);

// Replaces the nodes of a convex group by one region of that class whose body is the group. Values
// read outside the group become its results.
Node* MakeRegion(Graph& graph, const NodeSet& group, RegionClass region_class);

}  // namespace fusec
