// The steps that make random graphs.
#include "tests/property/random_generator.h"

namespace fusec {

void Generator::Unary() {
  static const std::vector<OpKind> kinds = {OpKind::kRelu, OpKind::kAbs,  OpKind::kNeg,
                                            OpKind::kTanh, OpKind::kSigmoid};
  const OpKind kind = random_.From(kinds);
  const bool rounds = kind == OpKind::kTanh || kind == OpKind::kSigmoid;
  Add(kind, {Any()}, {}, rounds ? std::optional(kRounded) : std::nullopt);
}

void Generator::Binary() {
  static const std::vector<OpKind> kinds = {OpKind::kAdd, OpKind::kSub, OpKind::kMul,
                                            OpKind::kMax, OpKind::kMin};
  Value* a = Any();
  Value* b = random_.OneIn(4) ? Scalar() : Any();
  if (random_.OneIn(2)) std::swap(a, b);
  const OpKind kind = random_.From(kinds);
  Bits bits = Widest(bits_[a], bits_[b]);
  if (kind == OpKind::kMul) bits = ProductBits(bits_[a], bits_[b]);
  else if (kind == OpKind::kAdd || kind == OpKind::kSub) ++bits.magnitude;
  Add(kind, {a, b}, {}, bits);
}

// Rounding may change the result of a comparison, so only exact values are compared.
void Generator::Choice() {
  Value* a = Any();
  Value* b = Any();
  if (!IsExact(a) || !IsExact(b)) return;
  Value* condition = TryAdd(OpKind::kLess, {a, b});
  if (condition != nullptr) Add(OpKind::kWhere, {condition, a, Any()});
}

void Generator::Transpose() {
  Value* x = AnyOfRank(2);
  std::vector<int64_t> perm;
  for (int64_t i = 0; i < x->type.rank(); ++i) {
    perm.insert(perm.begin() + random_.Below(i + 1), i);
  }
  Add(OpKind::kTranspose, {x}, {{"perm", perm}});
}

// Merges two neighbouring axes, splits an even one or adds one of size 1.
void Generator::Reshape() {
  Value* x = AnyOfRank(1);
  Shape shape = x->type.shape;
  const int64_t axis = AxisOf(x);
  const std::optional<int64_t> size = shape[axis].AsConstant();
  if (axis + 1 < x->type.rank() && random_.OneIn(2)) {
    shape[axis] = shape[axis] * shape[axis + 1];
    shape.erase(shape.begin() + axis + 1);
  } else if (size && *size % 2 == 0 && random_.OneIn(2)) {
    shape[axis] = Expr(*size / 2);
    shape.insert(shape.begin() + axis + random_.Below(2), Expr(2));
  } else {
    shape.insert(shape.begin() + axis, Expr(1));
  }
  Add(OpKind::kReshape, {x}, {{"shape", shape}});
}

void Generator::Slice() {
  Value* x = AnyOfRank(1);
  Shape shape = x->type.shape;
  const int64_t axis = AxisOf(x);
  const std::optional<int64_t> size = shape[axis].AsConstant();
  if (!size || *size == 0) return;
  Exprs starts(shape.size(), Expr(0));
  std::vector<int64_t> steps(shape.size(), 1);
  const int64_t start = random_.Below(*size);
  steps[axis] = random_.OneIn(3) ? -1 : 1 + random_.Below(2);
  const int64_t longest =
      steps[axis] < 0 ? start + 1 : (*size - start + steps[axis] - 1) / steps[axis];
  starts[axis] = Expr(start);
  shape[axis] = Expr(1 + random_.Below(longest));
  Add(OpKind::kSlice, {x}, {{"starts", starts}, {"steps", steps}, {"shape", shape}});
}

// The first or last min(size, limit) elements of a symbolic axis, as for truncated sequences; now and then the rows of a table of positions
// are added, which has `limit` rows.
void Generator::First() {
  Value* x = AnyOfRank(1);
  const int64_t axis = AxisOf(x), limit = 1 + random_.Below(12);
  const Expr size = x->type.shape[axis];
  if (size.AsConstant()) return;
  const auto first = [&](Value* value, const Expr& length, const Expr& start) {
    Shape shape = value->type.shape;
    const int64_t along = axis - x->type.rank() + value->type.rank();
    Exprs starts(shape.size(), Expr(0));
    shape[along] = length;
    starts[along] = start;
    const std::vector<int64_t> steps(shape.size(), 1);
    return TryAdd(OpKind::kSlice, {value}, {{"starts", starts}, {"steps", steps}, {"shape", shape}});
  };
  const Expr length = Min(size, limit, graph_->SymbolRanges());
  Value* part = first(x, length, random_.OneIn(3) ? size - length : Expr(0));
  if (part == nullptr) return;
  floats_.push_back(part);
  bits_[part] = bits_[x];
  ++made_;
  const Shape& shape = x->type.shape;
  const auto rest = StaticShape(Shape(shape.begin() + axis + 1, shape.end()));
  if (!rest || random_.OneIn(2)) return;
  std::vector<int64_t> dims = {limit};
  dims.insert(dims.end(), rest->begin(), rest->end());
  Value* rows = first(Constant(dims), length, Expr(0));
  if (rows == nullptr) return;
  Bits bits = Widest(bits_[x], {});
  ++bits.magnitude;
  Add(OpKind::kAdd, {part, rows}, {}, bits);
}

// Splits a symbolic axis that is a multiple of a number into two axes.
void Generator::Group() {
  Value* x = AnyOfRank(1);
  const int64_t axis = AxisOf(x);
  Shape shape = x->type.shape;
  const Expr size = shape[axis];
  if (size.terms().size() != 1 || size.AsConstant() || size.terms()[0].coefficient < 2) return;
  shape[axis] = FloorDiv(size, size.terms()[0].coefficient, graph_->SymbolRanges());
  shape.insert(shape.begin() + axis + 1, Expr(size.terms()[0].coefficient));
  Add(OpKind::kReshape, {x}, {{"shape", shape}});
}

void Generator::Concat() {
  Value* x = AnyOfRank(1);
  const int64_t axis = AxisOf(x);
  ValueList operands = {x};
  for (int64_t i = random_.Below(3); i >= 0; --i) {
    operands.push_back(random_.OneIn(2) ? x : Any());
  }
  Add(OpKind::kConcat, operands, {{"axis", axis}});
}

void Generator::Pad() {
  Value* x = AnyOfRank(1);
  Exprs pads(2 * x->type.shape.size(), Expr(0));
  for (Expr& pad : pads) pad = Expr(random_.Below(3));
  Add(OpKind::kPad, {x, Scalar()}, {{"pads", pads}, {"mode", std::string("constant")}});
}

void Generator::Expand() {
  Value* x = Any();
  Shape shape = x->type.shape;
  shape.insert(shape.begin(), random_.OneIn(2) ? Expr::Symbol("batch") : Expr(random_.Size()));
  Add(OpKind::kExpand, {x}, {{"shape", shape}});
}

// Rows of a constant table, or of a value, by indices that are an input.
void Generator::Gather() {
  const bool from_table = random_.OneIn(2);
  Value* data =
      from_table ? Constant({1 + random_.Below(9), 1 + random_.Below(5)}) : AnyOfRank(1);
  const int64_t axis = from_table ? 0 : AxisOf(data);
  if (data->type.shape[axis].AsConstant().value_or(0) == 0) return;
  Shape shape = {Expr::Symbol("batch")};
  if (random_.OneIn(2)) shape.push_back(Expr(1 + random_.Below(3)));
  Value* indices = graph_->AddInput("ids", {Dtype::kI64, shape});
  Add(OpKind::kGather, {data, indices}, {{"axis", axis}});
}

void Generator::Reduce() {
  static const std::vector<OpKind> kinds = {OpKind::kReduceSum, OpKind::kReduceMean,
                                            OpKind::kReduceMax, OpKind::kReduceMin};
  Value* x = AnyOfRank(1);
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < x->type.rank(); ++i) {
    if (random_.OneIn(2)) axes.push_back(i);
  }
  if (axes.empty()) axes.push_back(AxisOf(x));
  const OpKind kind = random_.From(kinds);
  Bits bits = kind == OpKind::kReduceMean ? kRounded : bits_[x];
  if (kind == OpKind::kReduceSum) bits = ProductBits(bits, {0, 0}, kMaxElements);
  Add(kind, {x}, {{"axes", axes}, {"keepdims", random_.Below(2)}}, bits);
}

// A product by a constant weight, or of two values.
void Generator::MatMul() {
  Value* x = AnyOfRank(2);
  Value* weight = AnyOfRank(2);
  const int64_t transposed = random_.Below(2);
  const std::optional<int64_t> inner = x->type.shape.back().AsConstant();
  if (inner && !random_.OneIn(3)) {
    const int64_t columns = 1 + random_.Below(6);
    weight = transposed ? Constant({columns, *inner}) : Constant({*inner, columns});
  }
  const int rank = x->type.rank();
  const std::optional<int64_t> depth = rank > 2 ? x->type.shape[rank - 2].AsConstant() : std::nullopt;
  if (depth && random_.OneIn(3)) {  // as in a convolution
    weight = Constant({1 + random_.Below(6), *depth});
    return Add(OpKind::kMatMul, {weight, x}, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{0}}},
               ProductBits(bits_[weight], bits_[x], 16));
  }
  Add(OpKind::kMatMul, {x, weight},
      {{"transpose_a", int64_t{0}}, {"transpose_b", transposed}},
      ProductBits(bits_[x], bits_[weight], 16));
}

void Generator::Softmax() {
  Value* x = AnyOfRank(1);
  Add(OpKind::kSoftmax, {x}, {{"axis", AxisOf(x)}}, kRounded);
}

// A concatenation of rows of equal tables, chosen by columns of one input, hashed or not, with a dense part before or after them.
void Generator::Embeddings() {
  const int64_t count = 2 + random_.Below(5), width = 1 + random_.Below(4);
  const bool hashed = random_.OneIn(2), apart = random_.OneIn(4);
  const Expr batch = Expr::Symbol("batch");
  Value* ids = graph_->AddInput("ids", {Dtype::kI64, {batch, Expr(count)}});
  ValueList parts;
  if (random_.OneIn(2)) parts.push_back(floats_[0]);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t rows = 1 + random_.Below(9);
    Value* column = Make(OpKind::kSlice, {ids},
                         {{"starts", Shape{0, Expr(apart ? count - 1 - i : i)}},
                          {"steps", std::vector<int64_t>{1, 1}},
                          {"shape", Shape{batch, 1}}});
    column = Make(OpKind::kReshape, {column}, {{"shape", Shape{batch}}});
    if (hashed) {
      Value* divisor = Builder(*graph_).Scalar(Dtype::kI64, static_cast<double>(rows));
      column = Make(OpKind::kMod, {column, divisor}, {{"fmod", int64_t{0}}});
    }
    Value* table = Constant({hashed || random_.OneIn(2) ? rows : 5, width});
    parts.push_back(Make(OpKind::kGather, {table, column}, {{"axis", int64_t{0}}}));
  }
  if (random_.OneIn(2)) parts.push_back(floats_[1]);
  Add(OpKind::kConcat, parts, {{"axis", int64_t{1}}});
}

// Rows by indices that are computed: any integer will do.
void Generator::HashedGather() {
  const int64_t rows = 1 + random_.Below(9);
  const Dtype dtype = random_.OneIn(2) ? Dtype::kI32 : Dtype::kI64;
  Value* ids = graph_->AddInput("ids", {dtype, {Expr::Symbol("batch")}});
  ids = Make(OpKind::kMul, {ids, Builder(*graph_).Scalar(dtype, 7)});
  ids = Make(OpKind::kMod, {ids, Builder(*graph_).Scalar(dtype, static_cast<double>(rows))},
                     {{"fmod", int64_t{0}}});
  if (random_.OneIn(2)) ids = Make(OpKind::kCast, {ids}, {{"to", Dtype::kI64}});
  Add(OpKind::kGather, {Constant({rows, 1 + random_.Below(5)}), ids}, {{"axis", int64_t{0}}});
}

void Generator::CumSum() {
  Value* x = AnyOfRank(1);
  Add(OpKind::kCumSum, {x},
      {{"axis", AxisOf(x)}, {"exclusive", random_.Below(2)}, {"reverse", random_.Below(2)}},
      ProductBits(bits_[x], {0, 0}, kMaxElements));
}

void Generator::TopK() {
  Value* x = AnyOfRank(1);
  const int64_t axis = AxisOf(x);
  const int64_t extent = x->type.shape[axis].AsConstant().value_or(1);
  Add(OpKind::kTopK, {x},
      {{"axis", axis},
       {"k", Shape{Expr(random_.Below(extent + 1))}},
       {"largest", random_.Below(2)},
       {"sorted", int64_t{1}}});
}

// ArgMax, converted to a float. Rounding may make another element the largest, so this is done only for exact values, and not for an empty
// axis.
void Generator::ArgMax() {
  Value* x = AnyOfRank(1);
  const int64_t axis = AxisOf(x);
  if (!IsExact(x) || x->type.shape[axis].AsConstant().value_or(0) == 0) return;
  Value* where = TryAdd(random_.OneIn(2) ? OpKind::kArgMax : OpKind::kArgMin, {x},
                        {{"axes", std::vector<int64_t>{axis}},
                         {"keepdims", random_.Below(2)},
                         {"select_last_index", random_.Below(2)}});
  if (where != nullptr) Add(OpKind::kCast, {where}, {{"to", options_.dtype}}, Bits{0, 5});
}

void Generator::Normalize() {
  Value* x = AnyOfRank(1);
  const int64_t axis = AxisOf(x);
  if (random_.OneIn(2)) return Add(OpKind::kLogSoftmax, {x}, {{"axis", axis}}, kRounded);
  Value* scale = Any();
  Add(OpKind::kLayerNormalization, {x, scale, scale},
      {{"axis", axis}, {"epsilon", 0.125}, {"stash", Dtype::kF32}}, kRounded);
}

void Generator::Tile() {
  Value* x = AnyOfRank(1);
  std::vector<int64_t> repeats;
  for (int i = 0; i < x->type.rank(); ++i) repeats.push_back(1 + random_.Below(2));
  Add(OpKind::kTile, {x}, {{"repeats", repeats}});
}

void Generator::Unfold() {
  Value* x = AnyOfRank(1);
  Add(OpKind::kUnfold, {x},
      {{"axis", random_.OneIn(2) ? int64_t{x->type.rank()} - 1 : AxisOf(x)},
       {"size", 1 + random_.Below(4)},
       {"stride", 1 + random_.Below(3)},
       {"dilation", 1 + random_.Below(2)}});
}

void Generator::Trilu() {
  Add(OpKind::kTrilu, {AnyOfRank(2)}, {{"k", random_.Below(5) - 2}, {"upper", random_.Below(2)}});
}

}  // namespace fusec
