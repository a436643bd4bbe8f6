#include "passes/dequantize_after_gather.h"

#include <algorithm>
#include <cmath>

#include "compiler/ir/op_def.h"
#include "passes/graph_edit.h"
#include "passes/recipe.h"

namespace fusec {

namespace {

enum class Packing { kNone, kUnsigned4, kSigned4, kE4M3 };

// The narrowest form that holds each element of a table of codes exactly. A constant with fewer
// columns than the values made from it holds scales or the like, and is not packed.
Packing PackingOf(const TensorData& table, const Expr& columns) {
  const auto all = [&](auto fits) {
    for (int64_t i = 0; i < table.element_count(); ++i) {
      if (!fits(i)) return false;
    }
    return true;
  };
  if (table.dims().size() != 2 || table.element_count() == 0 || columns != Expr(table.dims()[1]))
    return Packing::kNone;
  if (table.dtype() == Dtype::kU8 || table.dtype() == Dtype::kI8) {
    const int64_t least = table.dtype() == Dtype::kU8 ? 0 : -8;
    const bool fits = all([&](int64_t i) {
      const int64_t code = table.GetInt(i);
      return code >= least && code <= least + 15;
    });
    if (fits) return least == 0 ? Packing::kUnsigned4 : Packing::kSigned4;
  }
  if (table.dtype() == Dtype::kF32) {
    const bool fits = all([&](int64_t i) {
      const double x = table.GetDouble(i);
      const double decoded = E4M3ToDouble(DoubleToE4M3(x));
      return decoded == x && std::signbit(decoded) == std::signbit(x);
    });
    if (fits) return Packing::kE4M3;
  }
  return Packing::kNone;
}

MadeConstant Packed(const Value* constant, Packing packing) {
  const TensorData& table = constant->producer->constant;
  const int64_t rows = table.dims()[0], columns = table.dims()[1];
  const bool is_float = packing == Packing::kE4M3;
  const int64_t row_bytes = is_float ? columns : (columns + 1) / 2;
  TensorData packed(Dtype::kU8, {rows, row_bytes});
  auto* bytes = reinterpret_cast<uint8_t*>(packed.mutable_bytes());
  const int64_t zero = packing == Packing::kSigned4 ? 8 : 0;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t i = r * columns + c;
      if (is_float) {
        bytes[i] = DoubleToE4M3(table.GetDouble(i));
      } else {
        bytes[r * row_bytes + c / 2] |=
            static_cast<uint8_t>((table.GetInt(i) + zero) << (c % 2 * 4));
      }
    }
  }
  Recipe recipe;
  Value* codes = nullptr;
  if (is_float) {
    codes = recipe.E4M3Codes(recipe.Exact(constant));
  } else {
    codes = recipe.Add(recipe.Cast(recipe.Use(constant), Dtype::kI32),
                       recipe.Number(static_cast<double>(zero), Dtype::kI32));
    codes = recipe.Int4Pairs(codes);
  }
  return recipe.Finish(codes, std::move(packed));
}

bool IsRowwisePointwise(const Node& node) {
  return GetOpDef(node.kind).op_class == OpClass::kPointwise && !node.operands.empty() &&
         node.results.size() == 1 && node.kind != OpKind::kOneHot;
}

// Whether a view with as many rows as its operand keeps each row in its place.
bool IsRowwiseView(const Node& node) {
  if (node.kind == OpKind::kUnpackInt4) return node.result()->type.rank() > 1;
  if (node.kind != OpKind::kReshape && node.kind != OpKind::kExpand && node.kind != OpKind::kSlice)
    return false;
  const Shape &from = node.operand(0)->type.shape, &to = node.result()->type.shape;
  if (from.empty() || to.empty() || from[0] != to[0]) return false;
  if (node.kind == OpKind::kExpand) return from.size() == to.size();
  return node.kind == OpKind::kReshape ||
         (node.Get<Exprs>("starts")[0].IsConstant(0) && node.Ints("steps")[0] == 1);
}

// Values that are computed from constants row by row.
class Dequantization {
 public:
  // The bytes of the constants from which `value` is made, if rows are computed at each look-up;
  // nullopt if they cannot be.
  std::optional<int64_t> StoredBytes(const Value* value) {
    return StoredBytes(value, value->type.shape.back());
  }
  // The rows of `value` that `gather` looks up, with the shape of its ids in place of the rows.
  Value* Rows(Value* value, const Node& gather, Builder& builder) {
    if (Payload(value)) return Stored(value, gather, builder);
    Node& node = *value->producer;
    const std::string name = gather.result()->name + "_" + value->name;
    if (!IsRowwisePointwise(node)) {
      Value* rows = Rows(node.operand(0), gather, builder);
      Attributes attributes = node.attributes;
      if (node.kind != OpKind::kUnpackInt4) attributes["shape"] = LookedUpShape(value, gather);
      if (node.kind == OpKind::kSlice) {
        const size_t added = gather.operand(1)->type.shape.size();
        auto starts = node.Get<Exprs>("starts");
        auto steps = node.Ints("steps");
        starts.erase(starts.begin());
        starts.insert(starts.begin(), added, Expr(0));
        steps.erase(steps.begin());
        steps.insert(steps.begin(), added, 1);
        attributes["starts"] = starts;
        attributes["steps"] = steps;
      }
      return builder.Make(node.kind, {rows}, attributes, name);
    }
    ValueList operands;
    for (Value* operand : node.operands)
      operands.push_back(operand ? Operand(operand, value, gather, builder) : nullptr);
    return builder.Make(node.kind, operands, node.attributes, name);
  }

 private:
  std::optional<int64_t> StoredBytes(const Value* value, const Expr& columns) {
    if (const TensorData* data = Payload(value)) {
      const bool is_new = packing_.count(value) == 0;
      const Packing packing = is_new ? PackingOf(*data, columns) : packing_[value];
      packing_[value] = packing;
      if (!is_new) return 0;
      const auto bytes = static_cast<int64_t>(data->byte_count());
      return packing == Packing::kNone   ? bytes
             : packing == Packing::kE4M3 ? bytes / 4
                                         : data->dims()[0] * ((data->dims()[1] + 1) / 2);
    }
    const Node* node = value->producer;
    if (node == nullptr) return std::nullopt;
    if (IsRowwiseView(*node)) return StoredBytes(node->operand(0), columns);
    if (!IsRowwisePointwise(*node)) return std::nullopt;
    int64_t bytes = 0;
    for (const Value* operand : node->operands) {
      if (operand == nullptr || !HasRowsOf(operand, value)) {
        if (operand && !Payload(operand)) return std::nullopt;
        continue;
      }
      const auto part = StoredBytes(operand, columns);
      if (!part) return std::nullopt;
      bytes += *part;
    }
    return bytes;
  }

  // Whether an operand of a pointwise op has a row for each of the result's.
  static bool HasRowsOf(const Value* operand, const Value* result) {
    return operand->type.rank() == result->type.rank() &&
           operand->type.shape[0] == result->type.shape[0];
  }

  static Shape LookedUpShape(const Value* value, const Node& gather) {
    Shape shape = gather.operand(1)->type.shape;
    shape.insert(shape.end(), value->type.shape.begin() + 1, value->type.shape.end());
    return shape;
  }

  Value* Operand(Value* operand, const Value* result, const Node& gather, Builder& builder) {
    if (HasRowsOf(operand, result)) return Rows(operand, gather, builder);
    if (operand->type.rank() < result->type.rank()) return operand;
    const Shape shape(operand->type.shape.begin() + 1, operand->type.shape.end());  // of one row
    return builder.Make(OpKind::kReshape, {operand}, {{"shape", Exprs(shape)}}, operand->name);
  }

  static Value* Gather(Value* table, const Node& gather, Builder& builder) {
    return builder.Make(OpKind::kGather, {table, gather.operand(1)}, gather.attributes,
                        gather.result()->name + "_" + table->name);
  }

  // The rows of a constant that `gather` looks up; the constant is first replaced by its packed
  // form.
  Value* Stored(Value* constant, const Node& gather, Builder& builder) {
    const Packing packing = packing_.at(constant);
    if (packing == Packing::kNone) return Gather(constant, gather, builder);
    Value*& packed = packed_[constant];
    if (packed == nullptr) {
      packed = AddConstant(builder, Packed(constant, packing), constant->name);
      std::swap(packed->name, constant->name);
    }
    Value* rows = Gather(packed, gather, builder);
    if (packing == Packing::kE4M3)
      return builder.Make(OpKind::kFromE4M3, {rows}, {}, rows->name + "_f32");
    const int64_t columns = constant->producer->constant.dims()[1];
    rows =
        builder.Make(OpKind::kUnpackInt4, {rows}, {{"columns", columns}}, rows->name + "_unpacked");
    if (packing == Packing::kUnsigned4) return rows;
    rows = builder.Make(OpKind::kCast, {rows}, {{"to", Dtype::kI8}}, rows->name + "_i8");
    return builder.Make(OpKind::kSub, {rows, builder.Scalar(Dtype::kI8, 8)}, {},
                        rows->name + "_signed");
  }

  DenseMap<const Value*, Packing> packing_;
  DenseMap<const Value*, Value*> packed_;
};

bool IsRowGather(const Node& node) {
  return node.kind == OpKind::kGather && node.Int("axis") == 0 &&
         node.operand(0)->type.rank() >= 1 && node.operand(0) != node.operand(1);
}

// Whether only gathers along the rows read `value`, and it takes more memory than the constants
// from which it is made.
bool ShouldSink(const Graph& graph, const ReaderMap& readers, const Value* value,
                Dequantization& made) {
  const auto bytes = value->type.Bytes().AsConstant();
  if (value->producer == nullptr || Payload(value) || !bytes || IsOutput(graph, value))
    return false;
  const auto found = readers.find(value);
  const bool only_gathers =
      found != readers.end() &&
      std::all_of(found->second.begin(), found->second.end(), [&](const Node* reader) {
        return IsRowGather(*reader) && reader->operand(0) == value;
      });
  if (!only_gathers) return false;
  const auto stored = made.StoredBytes(value);
  return stored && *stored < *bytes;
}

}  // namespace

Result<bool> DequantizeAfterGather(Graph& graph, const PassOptions&, PassReport&) {
  const ReaderMap readers = Readers(graph);
  std::vector<Node*> gathers;
  for (const auto& node : graph.nodes) {
    if (IsRowGather(*node)) gathers.push_back(node.get());
  }
  bool changed = false;
  Dequantization made;
  for (Node* gather : gathers) {
    Value* table = gather->operand(0);
    Dequantization attempt;
    if (!ShouldSink(graph, readers, table, attempt)) continue;
    made.StoredBytes(table);
    const auto at = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                 [&](const auto& node) { return node.get() == gather; });
    Builder builder(graph, static_cast<size_t>(at - graph.nodes.begin()));
    builder.set_provenance(gather->provenance);
    Value* rows = made.Rows(table, *gather, builder);
    graph.ReplaceAllUses(gather->result(), rows);
    std::swap(rows->name, gather->result()->name);
    changed = true;
  }
  if (changed) RemoveDeadNodes(graph);
  return changed;
}

}  // namespace fusec
