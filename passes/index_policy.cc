#include "passes/index_policy.h"

#include "compiler/ir/failing_gather.h"
#include "compiler/ir/in_place.h"
#include "compiler/ir/op_def.h"
#include "passes/constant_linear.h"
#include "passes/graph_edit.h"
#include "passes/request_rows.h"

namespace fusec {

namespace {

// The axes of operand 0 that operand 1 indexes, one for each coordinate; empty for other nodes.
std::vector<int64_t> IndexedAxes(const Node& node) {
  if (IsInPlace(node)) return {};  // a row behind the end of a cache is always an error
  switch (node.kind) {
    case OpKind::kGather:
    case OpKind::kGatherElements:
    case OpKind::kScatterElements:
      return {node.Int("axis")};
    case OpKind::kGatherND:
    case OpKind::kScatterND: {
      std::vector<int64_t> axes;
      const int64_t first = node.Has("batch_dims") ? node.Int("batch_dims") : 0;
      const int64_t count = *node.operand(1)->type.shape.back().AsConstant();
      for (int64_t i = 0; i < count; ++i) axes.push_back(first + i);
      return axes;
    }
    default:
      return {};
  }
}

// Builds the replacement of one node.
class Rewrite {
 public:
  Rewrite(const Node& node, Builder& builder)
      : node_(node),
        builder_(builder),
        data_(node.operand(0)),
        indices_(node.operand(1)),
        axes_(IndexedAxes(node)),
        has_tuples_(node.kind == OpKind::kGatherND || node.kind == OpKind::kScatterND) {}

  // False for constant indices that are in range, and for nodes without indices.
  bool IsNeeded() const {
    if (axes_.empty()) return false;
    const TensorData* data = Payload(indices_);
    if (data == nullptr) return true;
    for (int64_t i = 0; i < data->element_count(); ++i) {
      const auto extent = Extent(static_cast<size_t>(i) % axes_.size()).AsConstant();
      if (!extent || data->GetInt(i) < -*extent || data->GetInt(i) >= *extent) return true;
    }
    return false;
  }

  Value* Result(const std::string& policy) {
    Value* extents = Extents();
    Value* given = indices_;
    if (given->type.dtype != Dtype::kI64)
      given = Make(OpKind::kCast, {given}, "wide", {{"to", Dtype::kI64}});
    if (policy == "wrap")
      return Again(data_, Make(OpKind::kMod, {given, extents}, "inside", {{"fmod", int64_t{0}}}));
    Value* below = Make(OpKind::kLess, {given, Integer(0)}, "below");
    Value* from_start = Make(OpKind::kAdd, {given, extents}, "from_start");
    Value* counted = Make(OpKind::kWhere, {below, from_start, given}, "counted");
    Value* last = Make(OpKind::kSub, {extents, Integer(1)}, "last");
    Value* capped = Make(OpKind::kMin, {counted, last}, "capped");
    Value* inside = Make(OpKind::kMax, {capped, Integer(0)}, "inside");
    if (policy == "clamp") return Again(data_, inside);
    Value* is_inside = Make(OpKind::kEqual, {counted, inside}, "is_inside");
    if (node_.kind == OpKind::kScatterElements || node_.kind == OpKind::kScatterND) {
      Value* or_end = Make(OpKind::kWhere, {is_inside, inside, extents}, "or_end");
      return Cropped(Again(Padded(), or_end));
    }
    return ZeroUnless(is_inside, Again(data_, inside));
  }

 private:
  const Expr& Extent(size_t i) const { return data_->type.shape[axes_[i]]; }
  Value* Make(OpKind kind, ValueList operands, const std::string& hint,
              Attributes attributes = {}) {
    return builder_.Make(kind, std::move(operands), std::move(attributes),
                         indices_->name + "_" + hint);
  }
  Value* Integer(double value) { return builder_.Scalar(Dtype::kI64, value); }

  // The extent of the axis as a scalar; for tuples of coordinates, one extent for each coordinate.
  Value* Extents() {
    Exprs extents;
    std::vector<int64_t> constants;
    for (size_t i = 0; i < axes_.size(); ++i) {
      extents.push_back(Extent(i));
      if (const auto constant = Extent(i).AsConstant()) constants.push_back(*constant);
    }
    if (constants.size() < extents.size()) {
      return Make(OpKind::kSymbolicDims, {}, "extent",
                  {{"values", extents}, {"scalar", int64_t{!has_tuples_}}});
    }
    std::vector<int64_t> dims;
    if (has_tuples_) dims.push_back(static_cast<int64_t>(constants.size()));
    return builder_.Constant(TensorData::From(Dtype::kI64, dims, constants),
                             indices_->name + "_extent");
  }

  // The same node with other data and indices.
  Value* Again(Value* data, Value* indices) {
    ValueList operands = node_.operands;
    operands[0] = data;
    operands[1] = indices;
    return builder_.Make(node_.kind, std::move(operands), node_.attributes, node_.result()->name);
  }

  Value* ZeroUnless(Value* is_inside, Value* found) {
    if (has_tuples_) {  // all coordinates must be inside
      is_inside = Make(
          OpKind::kReduceMin, {is_inside}, "all_inside",
          {{"axes", std::vector<int64_t>{is_inside->type.rank() - 1}}, {"keepdims", int64_t{0}}});
    }
    if (node_.kind != OpKind::kGatherElements) {  // a slice of the data for each index
      Shape shape = is_inside->type.shape;
      const int64_t first = has_tuples_ ? 0 : axes_[0];
      shape.resize(static_cast<size_t>(found->type.rank() - first), Expr(1));
      is_inside = Make(OpKind::kReshape, {is_inside}, "by_slice", {{"shape", shape}});
    }
    Value* zero = builder_.Scalar(found->type.dtype, 0);
    return builder_.Make(OpKind::kWhere, {is_inside, found, zero}, {}, node_.result()->name);
  }

  // The data with one more element at the end of each indexed axis, to which discarded writes go.
  Value* Padded() {
    const size_t rank = data_->type.shape.size();
    Exprs pads(2 * rank, Expr(0));
    for (const int64_t axis : axes_) pads[rank + static_cast<size_t>(axis)] = Expr(1);
    return builder_.Make(OpKind::kPad, {data_, builder_.Scalar(data_->type.dtype, 0)},
                         {{"pads", pads}, {"mode", std::string("constant")}},
                         data_->name + "_padded");
  }
  Value* Cropped(Value* padded) {
    const size_t rank = data_->type.shape.size();
    return builder_.Make(OpKind::kSlice, {padded},
                         {{"starts", Exprs(rank, Expr(0))},
                          {"steps", std::vector<int64_t>(rank, 1)},
                          {"shape", data_->type.shape}},
                         node_.result()->name);
  }

  const Node& node_;
  Builder& builder_;
  Value *data_, *indices_;
  const std::vector<int64_t> axes_;
  const bool has_tuples_;
};

}  // namespace

Result<bool> ApplyIndexPolicy(Graph& graph, const PassOptions& options, PassReport&) {
  if (options.index_policy == "error") return false;
  const Value* map = options.per_request.is_mapped ? FindRequestMap(graph) : nullptr;
  bool changed = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = *graph.nodes[i];
    if (node.Has(kFailsOutside) || (map && ReplicationOf(node.result(), map))) continue;
    Builder builder(graph, i);
    builder.set_provenance(node.provenance);
    Rewrite rewrite(node, builder);
    if (!rewrite.IsNeeded()) continue;
    Value* old = node.result();
    Value* made = rewrite.Result(options.index_policy);
    graph.ReplaceAllUses(old, made);
    std::swap(old->name, made->name);
    i = builder.insert_at();  // the old node, which is dead now
    changed = true;
  }
  if (changed) RemoveDeadNodes(graph);
  return changed;
}

}  // namespace fusec
