#include "passes/recognize_lookup.h"

#include <map>
#include <optional>

#include "passes/constant_linear.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

struct Search {
  Value* ids = nullptr;  // has the rank of the comparison, and extent 1 along the axis of the list
  const TensorData* list = nullptr;
  const Value* constant = nullptr;  // holds the list
};

// The comparison from which `value` is made, through casts that keep 0 less than 1; or null.
const Node* ComparisonOf(const Value* value) {
  const Node* node = value->producer;
  while (node && (node->kind == OpKind::kCast || node->kind == OpKind::kIdentity)) {
    node = node->operand(0)->producer;
  }
  return node && node->kind == OpKind::kEqual ? node : nullptr;
}

// The data of a constant whose elements all lie along `axis` of a result of `rank`; otherwise null.
const TensorData* ListAlong(const Value* value, int64_t axis, int rank) {
  const TensorData* payload = Payload(value);
  if (!payload) return nullptr;
  const TensorData& data = *payload;
  const int64_t own_axis = axis - (rank - value->type.rank());
  const bool is_integer = data.dtype() == Dtype::kI64 || data.dtype() == Dtype::kI32;
  if (!is_integer || own_axis < 0 || data.element_count() == 0) return nullptr;
  return data.dims()[own_axis] == data.element_count() ? &data : nullptr;
}

std::optional<Search> FindSearch(const Node& reduction) {
  const auto& axes = reduction.Ints("axes");
  const Node* equal = ComparisonOf(reduction.operand(0));
  if (!equal || axes.size() != 1) return std::nullopt;
  const int rank = equal->result()->type.rank();
  for (int side = 0; side < 2; ++side) {
    Value* ids = equal->operand(1 - side);
    const TensorData* list = ListAlong(equal->operand(side), axes[0], rank);
    if (list && ids->type.rank() == rank && ids->type.shape[axes[0]].IsConstant(1) &&
        equal->result()->type.shape[axes[0]].IsConstant(list->element_count()))
      return Search{ids, list, equal->operand(side)};
  }
  return std::nullopt;
}

// The value of every key, by ascending key.
std::map<int64_t, int64_t> ValuesOf(const Node& reduction, const TensorData& list) {
  const bool is_arg = reduction.kind == OpKind::kArgMax;
  const bool last = is_arg && reduction.Int("select_last_index") != 0;
  std::map<int64_t, int64_t> values;
  for (int64_t i = 0; i < list.element_count(); ++i) {
    const auto [place, fresh] = values.emplace(list.GetInt(i), is_arg ? i : 1);
    if (last) place->second = i;
    if (!fresh && reduction.kind == OpKind::kReduceSum) ++place->second;
  }
  return values;
}

Value* Replacement(Builder& builder, const Node& reduction, const Search& search) {
  std::vector<int64_t> keys, values;
  for (const auto& [key, value] : ValuesOf(reduction, *search.list)) {
    keys.push_back(key);
    values.push_back(value);
  }
  const std::vector<int64_t> dims = {static_cast<int64_t>(keys.size())};
  const bool last = reduction.kind == OpKind::kArgMax && reduction.Int("select_last_index") != 0;
  const int64_t absent = last ? search.list->element_count() - 1 : 0;
  const std::string name = reduction.result()->name;
  const auto frozen = [&](Dtype dtype, ArrayRef<int64_t> elements, const char* suffix) {
    TensorData data = TensorData::From(dtype, dims, elements.vec());
    return AddConstant(builder, Frozen(std::move(data), {search.constant}), name + suffix);
  };
  Value* sorted = frozen(search.list->dtype(), keys, "_keys");
  Value* found =
      builder.Make(OpKind::kLookup, {sorted, search.ids, frozen(Dtype::kI32, values, "_values")},
                   {{"absent", absent}}, name);
  const TensorType& type = reduction.result()->type;
  if (found->type.dtype != type.dtype)
    found = builder.Make(OpKind::kCast, {found}, {{"to", type.dtype}}, name);
  if (found->type.shape != type.shape)
    found = builder.Make(OpKind::kReshape, {found}, {{"shape", type.shape}}, name);
  return found;
}

}  // namespace

Result<bool> RecognizeLookup(Graph& graph, const PassOptions&, PassReport&) {
  return ReplaceResults(graph, [](const Node& node, Builder& builder) -> Value* {
    if (node.kind != OpKind::kArgMax && node.kind != OpKind::kReduceMax &&
        node.kind != OpKind::kReduceSum)
      return nullptr;
    const auto search = FindSearch(node);
    if (!search) return nullptr;
    Value* found = Replacement(builder, node, *search);
    std::swap(found->name, node.result()->name);
    return found;
  });
}

}  // namespace fusec
