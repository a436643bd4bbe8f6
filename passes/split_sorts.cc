#include "passes/split_sorts.h"

#include "compiler/ir/sorted_parts.h"
#include "passes/sort_by_digits.h"

namespace fusec {

namespace {

// Up to this length, a single line is sorted by more blocks, each of which takes half as many
// elements. In longer lines the merge, which looks into all parts, would take longer for that.
constexpr int64_t kShortLine = 1 << 16;

// How many parts form a group if there are more than kMostParts.
constexpr int64_t kGroupParts = 8;

// Whether a top_k sorts a single line.
bool IsSingle(const Node& top_k) {
  Shape lines = top_k.operand(0)->type.shape;
  lines.erase(lines.begin() + top_k.Int("axis"));
  return Product(lines).IsConstant(1);
}

// Replaces the results of node number `number`, and removes it.
void Replace(Graph& graph, size_t number, const ValueList& made) {
  for (size_t i = 0; i < made.size(); ++i) {
    Value* old = graph.nodes[number]->result(static_cast<int>(i));
    graph.ReplaceAllUses(old, made[i]);
    std::swap(old->name, made[i]->name);
  }
  graph.nodes.erase(graph.nodes.begin() + static_cast<int64_t>(number));
}

}  // namespace

Result<bool> SplitTopK(Graph& graph, bool all_long_lines) {
  const Ranges ranges = graph.SymbolRanges();
  bool changed = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = *graph.nodes[i];
    if (node.kind != OpKind::kTopK || node.Has(kPart)) continue;
    const Expr length = node.operand(0)->type.shape[node.Int("axis")];
    if (all_long_lines && TakesDigits(node, ranges)) {
      Builder builder(graph, i);
      builder.set_provenance(node.provenance);
      FUSEC_ASSIGN(const SortedVectors made, SortByDigits(node, ranges, builder));
      i = builder.insert_at();
      Replace(graph, i--, {made.numbers, made.places});
      changed = true;
      continue;
    }
    const Exprs k = node.Get<Exprs>("k");
    const int64_t most = ranges.IntervalOf(k[0]).high;
    const int64_t elements = ranges.IntervalOf(length).high;
    int64_t part = kMostSorted;
    if (all_long_lines && most <= kMostChosen)
      part = kMostChosenFrom;
    else if (all_long_lines && elements <= kShortLine && IsSingle(node))
      part /= 2;
    if ((all_long_lines ? elements : most) <= part) continue;
    Builder builder(graph, i);
    builder.set_provenance(node.provenance);
    Attributes attributes = node.attributes;
    attributes[kPart] = part;
    const bool in_groups = all_long_lines && most > kMostChosen && elements > kShortLine;
    Exprs kept = {in_groups ? Expr(part) : Min(k[0], part, ranges)};
    attributes["k"] = kept;
    FUSEC_ASSIGN(Node * parts, builder.Add(OpKind::kTopK, node.operands, attributes,
                                           node.result()->name + "_parts"));
    Attributes merge = {
        {"axis", node.Int("axis")}, {kPart, part}, {"kept", kept},
        {"length", Exprs{length}},  {"k", k},      {"largest", node.Int("largest")}};
    while (in_groups && elements > kMostParts * part) {
      Attributes group = merge;
      group[kGroup] = kGroupParts;
      FUSEC_ASSIGN(parts, builder.Add(OpKind::kMergeSorted, {parts->result(0), parts->result(1)},
                                      group, node.result()->name + "_groups"));
      part *= kGroupParts;
      merge[kPart] = part;
      merge["kept"] = kept = {part};
    }
    FUSEC_ASSIGN(Node * merged,
                 builder.Add(OpKind::kMergeSorted, {parts->result(0), parts->result(1)}, merge,
                             node.result()->name));
    i = builder.insert_at();
    Replace(graph, i--, {merged->result(0), merged->result(1)});
    changed = true;
  }
  return changed;
}

Result<bool> SplitSorts(Graph& graph, const PassOptions&, PassReport&) {
  return SplitTopK(graph, /*all_long_lines=*/false);
}

}  // namespace fusec
