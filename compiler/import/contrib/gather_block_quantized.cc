#include <fmt/format.h>

#include "compiler/import/contrib/contrib_ops.h"
#include "compiler/ops/formula.h"

namespace fusec {

namespace {

// The attributes of GatherBlockQuantized, and the shapes of its unpacked codes and of its scales.
struct Blocks {
  int64_t bits, size, gather_axis, axis;
  bool is_packed = false;  // two codes of 4 bits in each u8
  Shape shape;             // of the codes
  Shape blocks;            // of the scales
};

// Repeats a number per block for every code of the block.
Value* OfEachCode(Formula& f, Value* per_block, const Blocks& blocks) {
  Shape apart(blocks.blocks), filled(blocks.blocks), joined(blocks.blocks);
  apart.insert(apart.begin() + blocks.axis + 1, Expr(1));
  filled.insert(filled.begin() + blocks.axis + 1, Expr(blocks.size));
  joined[blocks.axis] = blocks.blocks[blocks.axis] * blocks.size;
  Value* repeated = f.Reshape(f.Expand(f.Reshape(per_block, apart), filled), joined);
  return f.Slice(repeated, static_cast<int>(blocks.axis), 0, blocks.shape[blocks.axis]);
}

Value* Unpacked(Formula& f, Value* bytes, const Expr& columns) {
  return f.Make(OpKind::kUnpackInt4, {bytes}, {{"columns", columns.AsConstant().value_or(-1)}});
}

Result<Blocks> BlocksOf(const NodeContext& context, const ImportState& state) {
  for (int i = 0; i < 3; ++i) {
    if (i >= context.input_count() || context.input(i) == nullptr)
      return context.Fail(fmt::format("input {} is missing", i));
  }
  const Value* data = context.input(0);
  const int rank = data->type.rank();
  const bool is_narrow = state.narrow.count(data) != 0;
  Blocks blocks{.bits = context.Int("bits", 4), .size = context.Int("block_size", 128)};
  auto gather_axis = NormalizeAxis(context.Int("gather_axis", 0), rank);
  auto axis = NormalizeAxis(context.Int("quantize_axis", 1), rank);
  for (const auto& one : {gather_axis, axis}) {
    if (!one) return context.Fail(one.error().message);
  }
  blocks.gather_axis = *gather_axis;
  blocks.axis = *axis;
  if (is_narrow ? !IsInteger(data->type.dtype) : data->type.dtype != Dtype::kU8) {
    return context.Fail("data is " + data->type.ToString() + ", expected uint8, int4 or uint4");
  }
  if (blocks.size < 1 || (blocks.bits != 4 && blocks.bits != 8)) {
    return context.Fail(fmt::format("block_size is {} and bits {}, expected 1 or more, and 4 or 8",
                                    blocks.size, blocks.bits));
  }
  blocks.is_packed = !is_narrow && blocks.bits == 4;
  blocks.shape = data->type.shape;
  if (blocks.is_packed && (blocks.axis != rank - 1 || !blocks.shape.back().AsConstant())) {
    return context.Fail("4-bit codes in uint8 must be packed along a last axis of fixed size");
  }
  if (blocks.is_packed) blocks.shape.back() = blocks.shape.back() * 2;
  blocks.blocks = blocks.shape;
  Expr& along = blocks.blocks[blocks.axis];
  along = CeilDiv(along, blocks.size, context.ranges());
  if (context.input(2)->type.shape != blocks.blocks || !IsFloat(context.input(2)->type.dtype)) {
    return context.Fail(fmt::format("the scales are {}, expected floats {}",
                                    context.input(2)->type.ToString(),
                                    TensorType{Dtype::kF32, blocks.blocks}.ToString()));
  }
  return blocks;
}

}  // namespace

// y = gather((data - zero point) * scale, indices). Without zero points, the zero point of codes in
// uint8 is the middle of their range. (onnxruntime, docs/ContribOperators.md)
Result<void> ImportGatherBlockQuantized(NodeContext& context, const ImportState& state) {
  FUSEC_ASSIGN(const Blocks blocks, BlocksOf(context, state));
  const bool is_narrow = state.narrow.count(context.input(0)) != 0;
  Formula f(context);
  Value* codes = context.input(0);
  if (blocks.is_packed) codes = Unpacked(f, codes, blocks.shape.back());
  Value* zero_point = nullptr;
  if (context.input_count() > 3 && context.input(3) != nullptr) {
    zero_point = context.input(3);
    if (blocks.is_packed) zero_point = Unpacked(f, zero_point, blocks.blocks.back());
    if (zero_point != nullptr && zero_point->type.shape != blocks.blocks) {
      return context.Fail(fmt::format("the zero points are {}, expected one for each scale",
                                      context.input(3)->type.ToString()));
    }
    zero_point = OfEachCode(f, f.Cast(zero_point, Dtype::kI32), blocks);
  } else if (!is_narrow) {
    zero_point = f.Number(1 << (blocks.bits - 1), Dtype::kI32);
  }
  Value* centred = f.Cast(codes, Dtype::kI32);
  if (zero_point != nullptr) centred = f.Sub(centred, zero_point);
  Value* scales = OfEachCode(f, f.Cast(context.input(2), Dtype::kF32), blocks);
  Value* table = f.Cast(f.Mul(f.Cast(centred, Dtype::kF32), scales), context.input(2)->type.dtype);
  return f.Finish(
      {f.Make(OpKind::kGather, {table, context.input(1)}, {{"axis", blocks.gather_axis}})});
}

}  // namespace fusec
