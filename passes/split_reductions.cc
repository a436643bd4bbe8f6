#include "passes/split_reductions.h"

#include <optional>

#include "passes/graph_edit.h"

namespace fusec {

namespace {

// Tensors with at least as many elements are read by several blocks.
constexpr int64_t kLargeTensor = 1 << 14;
// Shorter rows are not worth a kernel of their own.
constexpr int64_t kLeastColumns = 16;

bool IsLarge(const TensorType& type) {
  const std::optional<int64_t> columns = type.shape.back().AsConstant();
  const std::optional<int64_t> elements = type.ElementCount().AsConstant();
  return columns && *columns >= kLeastColumns && (!elements || *elements >= kLargeTensor);
}

Value* Split(const Node& node, Builder& builder) {
  if (node.kind != OpKind::kReduceMin && node.kind != OpKind::kReduceMax) return nullptr;
  Value* x = node.operand(0);
  const int rank = x->type.rank();
  const bool is_whole = static_cast<int>(node.Ints("axes").size()) == rank;
  if (!is_whole || rank < 2 || !IsLarge(x->type)) return nullptr;
  Value* rows = builder.Make(node.kind, {x},
                             {{"axes", std::vector<int64_t>{rank - 1}}, {"keepdims", int64_t{1}}},
                             node.result()->name + "_of_rows");
  return builder.Make(node.kind, {rows}, node.attributes, node.result()->name);
}

}  // namespace

Result<bool> SplitReductions(Graph& graph, const PassOptions&, PassReport&) {
  return ReplaceResults(graph, Split);
}

}  // namespace fusec
