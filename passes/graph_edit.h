#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/region_class.h"
#include "compiler/support/adt.h"
#include "passes/pass_manager.h"

// Queries and edits of graphs that several passes need.
namespace fusec {

// The model's name of a constant. `names` maps the graph's names to the model's; a constant that is
// not in it has the same name in both.
const std::string& ModelName(const Value& constant,
                             const std::map<std::string, std::string>& names);

// The readers of each value, in graph order. Only for look-ups: its own order is arbitrary.
using ReaderMap = DenseMap<const Value*, std::vector<Node*>>;
ReaderMap Readers(const Graph& graph);
// The node that makes `value` if it is of that kind; null otherwise, and for null.
Node* ProducerOf(const Value* value, OpKind kind);
// Whether exactly one node reads `value` (with one operand or several), and the graph's caller does
// not.
bool HasOneReader(const Graph& graph, const ReaderMap& readers, const Value* value);
// The value of a constant with one element.
std::optional<double> ScalarConstant(const Value* value);
// The first of integers each of which, in the order in which they lie in memory, is greater by 1
// than the one before it; nullopt for others, and for fewer than two.
std::optional<int64_t> StartOfCount(const TensorData& data);
bool IsReduction(const Node& node);
// Whether the node computes each element of a value of that shape by itself.
bool IsPointwise(const Node& node, ShapeRef shape);
// Whether each element of a node's result is a copy, a look-up, or a cheap pointwise op, so that it
// may be computed again.
bool IsCheapByElement(const Node& node);
bool IsOutput(const Graph& graph, const Value* value);
// The number of elements of a value if every symbol is 1, for comparing sizes; 0 if that is
// unknown.
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

// Reports, for every edge between `node` and `group`, that `node` stays out of the group.
void Refuse(PassReport& report, const ReaderMap& readers, const NodeSet& group, const Node& node,
            const std::string& reason, const std::string& needed);
// The reason, and what fusion would need, for a node that would make its group not convex.
inline constexpr const char* kBetween = "another kernel runs between the two and needs one of them";
inline constexpr const char* kBetweenNeeded = "that other kernel's ops in the same kernel";

// The concatenation of `parts` along their last axis, with `missing` zeros after each row.
Value* WithZeros(Builder& builder, ValueList parts, int64_t missing, const std::string& name);

// Elements low .. high - 1 of an axis.
struct Span {
  int64_t axis = -1;
  int64_t low = 0, high = 0;
};
// The elements that `slice` reads, if it is partial along at most one axis; axis -1 if it reads
// everything.
std::optional<Span> SpanOf(const Node& slice);

// Elements low .. high - 1 of an axis of `x`. With an empty `name` the result is named after the
// op.
Value* Sliced(Builder& builder, Value* x, int64_t axis, int64_t low, int64_t high,
              const std::string& name = "");

// The value with another shape; the value itself if it has that shape.
Value* ReshapeTo(Builder& builder, Value* value, ShapeRef shape, const std::string& name);

// Replaces the result of every node for which `rewrite` returns a value, in the order of the graph,
// so that readers of a replaced value are visited later. A rewrite that returns null must not have
// made nodes. Returns whether anything was replaced.
bool ReplaceResults(Graph& graph, function_ref<Value*(const Node&, Builder&)> rewrite);
// Removes nodes nobody reads, from the end to the start. Returns whether there were any.
bool RemoveDeadNodes(Graph& graph);
// Orders nodes so that operands come before their readers, and otherwise keeps their order.
void SortNodes(Graph& graph);

// Whether a path leaves `group` and comes back: such a group cannot become one node.
bool IsConvex(const Graph& graph, const NodeSet& group);

// Whether both are the same value, or equal views of the same value (split-views makes such
// copies).
bool ShowTheSame(const Value* a, const Value* b);

// Replaces the nodes of a convex group by one region of that class whose body is the group. Values
// read outside the group become its results; equal views become one result.
Node* MakeRegion(Graph& graph, const NodeSet& group, RegionClass region_class);

}  // namespace fusec
