// matmul_integer: products of 8-bit integers.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/import/import_context.h"
#include "compiler/ops/define_op.h"
#include "compiler/ops/formula.h"
#include "compiler/ops/matmul_common.h"
#include "compiler/ops/quantization.h"
#include "compiler/ops/reduction_common.h"
#include "compiler/reference/reference_context.h"

namespace fusec {
namespace {

// A factor of a product of integers.
struct IntegerFactor {
  Value* integers = nullptr;
  Value* zero_point = nullptr;  // broadcasts to the integers; null: 0
};

// A bound of |integer - zero point|. Zero points that are constants narrow it.
int64_t GreatestOf(const IntegerFactor& factor) {
  const Dtype dtype = factor.integers->type.dtype;
  const int64_t least = LeastInteger(dtype), greatest = GreatestInteger(dtype);
  int64_t least_zero = 0, greatest_zero = 0;
  if (factor.zero_point != nullptr) {
    const TensorData* zeros = Payload(factor.zero_point);
    least_zero = zeros ? greatest : least;
    greatest_zero = zeros ? least : greatest;
    for (int64_t k = 0; zeros && k < zeros->element_count(); ++k) {
      least_zero = std::min(least_zero, zeros->GetInt(k));
      greatest_zero = std::max(greatest_zero, zeros->GetInt(k));
    }
  }
  return std::max(greatest - least_zero, greatest_zero - least);
}

Value* Centred(Formula& f, const IntegerFactor& factor, Dtype dtype) {
  return Centred(f, factor.integers, factor.zero_point, dtype);
}

// The terms of each sum of `a` times `b` that f32 can add up in any order without rounding.
int64_t ExactTerms(int64_t greatest_a, int64_t greatest_b) {
  constexpr int64_t kGreatestExact = int64_t{1} << 24;
  return std::max<int64_t>(1, kGreatestExact / std::max<int64_t>(1, greatest_a * greatest_b));
}

// The parts of equal size, each of at most `most` terms, into which a sum of `terms` terms is cut:
// few, and possibly with a few terms to spare.
int64_t PartsOf(int64_t terms, int64_t most) {
  const int64_t least = (terms + most - 1) / most;
  for (int64_t parts = least; parts < 2 * least; ++parts) {
    if (terms % parts == 0) return parts;
  }
  return least;
}

// `x` with `count` zeros behind each of its rows (axis rank - 1) or columns (axis rank - 2).
Value* WithZeros(Formula& f, Value* x, int axis, int64_t count) {
  if (count == 0) return x;
  Shape shape = x->type.shape;
  shape[axis] = count;
  return f.Concat({x, f.Expand(f.Number(0, x->type.dtype), shape)}, axis);
}

// left right as i32, in f32 products of `parts` parts of each sum, which are exact.
Value* SumOfParts(Formula& f, Value* left, Value* right, int64_t parts) {
  const int rank_a = left->type.rank(), rank_b = right->type.rank();
  const int64_t terms = *left->type.shape.back().AsConstant(), part = (terms + parts - 1) / parts;
  left = WithZeros(f, left, rank_a - 1, parts * part - terms);
  right = WithZeros(f, right, rank_b - 2, parts * part - terms);
  Shape rows = left->type.shape, columns = right->type.shape;
  rows.back() = Expr(parts);
  rows.push_back(Expr(part));
  columns[rank_b - 2] = Expr(parts);
  columns.insert(columns.end() - 1, Expr(part));
  std::vector<int64_t> parts_first(rank_a + 1);
  std::iota(parts_first.begin(), parts_first.end(), 0);
  std::swap(parts_first[rank_a - 2], parts_first[rank_a - 1]);
  left = f.Transpose(f.Reshape(left, rows), parts_first);
  Value* sums = f.Cast(f.MatMul(left, f.Reshape(right, columns)), Dtype::kI32);
  return f.Reduce(OpKind::kReduceSum, sums, {sums->type.rank() - 3}, /*keepdims=*/false);
}

// The product of (a - a's zero point), at most `greatest_a` each, and (b - b's zero point) as i32,
// in products of f32, which are exact as long as the sums are: a longer sum is added up from parts.
Value* ProductOf(Formula& f, const IntegerFactor& a, int64_t greatest_a, const IntegerFactor& b) {
  const int rank_a = a.integers->type.rank(), rank_b = b.integers->type.rank();
  const Expr& depth = a.integers->type.shape[rank_a - 1];
  const std::optional<int64_t> terms = depth.AsConstant();
  if (!terms || b.integers->type.shape[rank_b - 2] != depth)
    return f.MatMul(Centred(f, a, Dtype::kI32), Centred(f, b, Dtype::kI32));
  const int64_t most = ExactTerms(greatest_a, GreatestOf(b));
  // With m in the middle of a's type, (a - z) b = (a - m) b + (m - z) (sums of b's columns), and
  // the sums of (a - m) b can be twice as long.
  const Dtype dtype = a.integers->type.dtype;
  const int64_t middle = (LeastInteger(dtype) + GreatestInteger(dtype) + 1) / 2;
  const int64_t half = GreatestInteger(dtype) - middle + 1;
  if (*terms > most && greatest_a > half && IsConstant(b.integers)) {
    Value* m = f.Number(static_cast<double>(middle), Dtype::kI32);
    Value* sums =
        f.Reduce(OpKind::kReduceSum, Centred(f, b, Dtype::kI32), {rank_b - 2}, /*keepdims=*/true);
    Value* zero_point = a.zero_point ? f.Cast(a.zero_point, Dtype::kI32) : nullptr;
    Value* shift = zero_point ? f.Sub(m, zero_point) : m;
    return f.Add(ProductOf(f, {a.integers, m}, half, b), f.Mul(shift, sums));
  }

  Value* left = Centred(f, a, Dtype::kF32);
  Value* right = Centred(f, b, Dtype::kF32);
  if (*terms <= most) return f.Cast(f.MatMul(left, right), Dtype::kI32);
  // Products of rows by weights, whatever axes the rows have, become `parts` products of matrices.
  Shape shape = left->type.shape;
  shape.back() = right->type.shape.back();
  const bool is_flat = rank_a > 2 && rank_b == 2;
  if (is_flat) left = f.Reshape(left, {Product(Shape(shape.begin(), shape.end() - 1)), depth});
  Value* sum = SumOfParts(f, left, right, PartsOf(*terms, most));
  return is_flat ? f.Reshape(sum, shape) : sum;
}

// The operands are a [.., m, k] and b [.., k, n], and their zero points, which broadcast to them
// and may be absent (null). Batch dims broadcast. The result is i32 or, with `to` = f32, the
// nearest floats (passes/recognize_integer_products.h).
struct MatMulIntegerOp {
  static constexpr AttributeSpec kAttributes[] = {{"to", "dtype", true}};
  static Result<void> Import(ImportContext& context) {
    Formula f(context);
    Value* a_zero = OfFactor(context, f, 2, /*as_column=*/true);
    Value* b_zero = OfFactor(context, f, 3, /*as_column=*/false);
    return f.Finish(
        {f.Make(OpKind::kMatMulInteger, {context.input(0), context.input(1), a_zero, b_zero})});
  }

  static InferResult Infer(const InferContext& context) {
    for (int i = 0; i < 2; ++i) {
      const TensorType& factor = context.operand(i);
      if (!IsInteger(factor.dtype) || DtypeBytes(factor.dtype) != 1 || factor.rank() < 2)
        return ModelError(fmt::format("factor {} is {}, expected 8-bit integers of rank 2 or more",
                                      i, factor.ToString()));
      if (!context.has_operand(i + 2)) continue;
      const TensorType& zero_point = context.operand(i + 2);
      const Result<Shape> shape = BroadcastShapes({factor.shape, zero_point.shape});
      if (zero_point.dtype != factor.dtype || !shape || *shape != factor.shape) {
        return ModelError(
            fmt::format("the zero point of factor {} is {}, expected one that "
                        "broadcasts to {}",
                        i, zero_point.ToString(), factor.ToString()));
      }
    }
    FUSEC_ASSIGN(Shape shape,
                 ShapeOfProduct({context.operand(0), false}, {context.operand(1), false}));
    const auto to = context.attributes.find("to");
    const Dtype dtype = to == context.attributes.end() ? Dtype::kI32 : std::get<Dtype>(to->second);
    if (dtype != Dtype::kI32 && dtype != Dtype::kF32)
      return ModelError(fmt::format("a product of {}, expected i32 or f32", DtypeName(dtype)));
    return std::vector<TensorType>{{dtype, std::move(shape)}};
  }

  static Result<void> Reference(ReferenceContext& context) {
    const auto centred = [&](int i) {
      ReferenceTensor factor = context.input(i);
      if (!context.has_input(i + 2)) return factor;
      const ReferenceTensor& zero_point = context.input(i + 2);
      int64_t at = 0;
      ForEachIndex(factor.dims, [&](ArrayRef<int64_t> index) {
        factor.ints[at++] -= zero_point.ints[BroadcastPosition(zero_point.dims, index)];
      });
      return factor;
    };
    ReferenceTensor& output = context.output();
    ReferenceTensor sums(Dtype::kI32, output.dims);
    ReferenceProduct(centred(0), false, centred(1), false, sums);
    if (IsFloat(output.dtype))
      output.reals.assign(sums.ints.begin(), sums.ints.end());
    else
      output.ints = std::move(sums.ints);
    return {};
  }

  // Products of f32 are faster than those of 32-bit integers on all targets.
  static Result<ValueList> Decompose(const Node& node, Builder& builder) {
    Formula f(builder);
    const IntegerFactor a{node.operand(0), node.operand(2)}, b{node.operand(1), node.operand(3)};
    if (IsFloat(node.result()->type.dtype))
      return ValueList{f.MatMul(Centred(f, a, Dtype::kF32), Centred(f, b, Dtype::kF32))};
    return ValueList{ProductOf(f, a, GreatestOf(a), b)};
  }
};

}  // namespace

FUSEC_DEFINE_OP(MatMulInteger)

}  // namespace fusec
