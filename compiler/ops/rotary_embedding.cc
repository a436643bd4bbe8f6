// rotary_embedding {interleaved, rotary_embedding_dim, num_heads}: rotates pairs (x1, x2) of the
// first rotary_embedding_dim elements of each head by an angle per position:
//   x1' = cos * x1 - sin * x2,   x2' = sin * x1 + cos * x2
// Pairs are (i, i + half), or (2i, 2i + 1) if interleaved. If rotary_embedding_dim is 0, the whole
// head is rotated. Operands are x, cos, sin and position_ids?; x is [batch, heads, length, size] or
// [batch, length, heads * size].
#include <fmt/format.h>

#include "compiler/import/import_context.h"
#include "compiler/ops/define_op.h"
#include "compiler/ops/formula.h"

namespace fusec {
namespace {

struct RotaryShape {
  Shape heads;          // x as rank 4
  int length_axis = 0;  // of `heads`
  int head_axis = 0;    // of `heads`
  int64_t size = 0;     // of a head
  int64_t rotated = 0;  // elements of a head that are rotated
};

Result<RotaryShape> RotaryShapeOf(const TensorType& x, int64_t num_heads, int64_t rotary_dim) {
  RotaryShape s;
  if (x.rank() == 4) {
    s.heads = x.shape;
    s.head_axis = 1;
    s.length_axis = 2;
  } else if (x.rank() == 3 && num_heads > 0) {
    s.heads = {x.shape[0], x.shape[1], Expr(num_heads),
               FloorDiv(x.shape[2], Expr(num_heads), Ranges())};
    s.head_axis = 2;
    s.length_axis = 1;
    if (s.heads[3] * num_heads != x.shape[2]) {
      return ModelError(fmt::format("x is {}, expected a last dim that divides by {} heads",
                                    x.ToString(), num_heads));
    }
  } else {
    return ModelError(
        fmt::format("x is {} and num_heads is {}, expected rank 4, or rank 3 and num_heads",
                    x.ToString(), num_heads));
  }
  const std::optional<int64_t> size = s.heads[3].AsConstant();
  if (!size) {
    return ModelError(fmt::format("the head size is {}, expected a number", s.heads[3].ToString()));
  }
  s.size = *size;
  s.rotated = rotary_dim == 0 ? s.size : rotary_dim;
  if (s.rotated < 0 || s.rotated > s.size || s.rotated % 2 != 0) {
    return ModelError(
        fmt::format("rotary_embedding_dim is {}, expected an even number up to the head "
                    "size {}",
                    s.rotated, s.size));
  }
  return s;
}

Value* DecomposeRotary(const RotaryShape& s, const Node& node, Builder& builder) {
  Formula f(builder);
  const TensorType& type = node.operand(0)->type;
  const Dtype compute = ComputeDtype(type.dtype);
  const Expr half(s.rotated / 2);
  const auto angles = [&](int i) {  // [batch, length, half], with a dim of 1 for the heads
    Value* cache = node.operand(i);
    if (node.operand(3) != nullptr) cache = f.Gather(cache, node.operand(3));
    Shape shape = cache->type.shape;
    shape.insert(shape.begin() + s.head_axis, Expr(1));
    return f.Cast(f.Reshape(cache, shape), compute);
  };
  Value* cosine = angles(1);
  Value* sine = angles(2);
  Value* x = f.Cast(f.Reshape(node.operand(0), s.heads), compute);
  const bool interleaved = node.Int("interleaved") != 0;
  Value* x1 = f.Slice(x, 3, 0, half, interleaved ? 2 : 1);
  Value* x2 = f.Slice(x, 3, interleaved ? Expr(1) : half, half, interleaved ? 2 : 1);
  Value* turned_cosine = f.Mul(cosine, x1);
  Value* turned1 = f.Sub(turned_cosine, f.Mul(sine, x2));
  Value* turned_sine = f.Mul(sine, x1);
  Value* turned2 = f.Add(turned_sine, f.Mul(cosine, x2));
  Value* y = nullptr;
  if (interleaved) {
    Shape pairs = turned1->type.shape;
    pairs.push_back(Expr(1));
    Value* first = f.Reshape(turned1, pairs);
    Shape rotated = s.heads;
    rotated[3] = Expr(s.rotated);
    y = f.Reshape(f.Concat({first, f.Reshape(turned2, pairs)}, 4), rotated);
  } else {
    y = f.Concat({turned1, turned2}, 3);
  }
  if (s.rotated < s.size) {
    y = f.Concat({y, f.Slice(x, 3, s.rotated, s.size - s.rotated)}, 3);
  }
  return f.Reshape(f.Cast(y, type.dtype), type.shape);
}

struct RotaryEmbeddingOp {
  static constexpr AttributeSpec kAttributes[] = {
      {"interleaved", "int"}, {"rotary_embedding_dim", "int"}, {"num_heads", "int"}};
  static Result<void> Import(ImportContext& context) {
    ValueList operands;
    for (int i = 0; i < context.input_count(); ++i) operands.push_back(context.input(i));
    return context.AddNode(OpKind::kRotaryEmbedding, std::move(operands),
                           {{"interleaved", int64_t{context.Int("interleaved", 0) != 0}},
                            {"rotary_embedding_dim", context.Int("rotary_embedding_dim", 0)},
                            {"num_heads", context.Int("num_heads", 0)}});
  }

  static InferResult Infer(const InferContext& context) {
    const TensorType& x = context.operand(0);
    if (!IsFloat(x.dtype)) {
      return ModelError(fmt::format("x is {}, expected a float type", DtypeName(x.dtype)));
    }
    FUSEC_ASSIGN(const RotaryShape s,
                 RotaryShapeOf(x, context.Int("num_heads"), context.Int("rotary_embedding_dim")));
    Shape positions = {s.heads[0], s.heads[s.length_axis]};
    if (context.has_operand(3)) {
      const TensorType& ids = context.operand(3);
      if (!IsInteger(ids.dtype) || ids.shape != positions) {
        return ModelError(fmt::format("position_ids is {}, expected {}", ids.ToString(),
                                      TensorType{Dtype::kI64, positions}.ToString()));
      }
    }
    for (int i = 1; i < 3; ++i) {
      const TensorType& cache = context.operand(i);
      Shape expected = positions;
      if (context.has_operand(3)) expected = {cache.rank() > 0 ? cache.shape[0] : Expr(0)};
      expected.push_back(Expr(s.rotated / 2));
      if (cache.dtype != x.dtype || cache.shape != expected) {
        return ModelError(fmt::format("{} is {}, expected {}", i == 1 ? "cos_cache" : "sin_cache",
                                      cache.ToString(), TensorType{x.dtype, expected}.ToString()));
      }
    }
    return std::vector<TensorType>{x};
  }

  static Result<ValueList> Decompose(const Node& node, Builder& builder) {
    FUSEC_ASSIGN(const RotaryShape s, RotaryShapeOf(node.operand(0)->type, node.Int("num_heads"),
                                                    node.Int("rotary_embedding_dim")));
    return ValueList{DecomposeRotary(s, node, builder)};
  }
};

}  // namespace

FUSEC_DEFINE_OP(RotaryEmbedding)

}  // namespace fusec
