// matmul {transpose_a, transpose_b} and gemm {alpha, beta, transpose_a, transpose_b}.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/import/import_context.h"
#include "compiler/ops/define_op.h"
#include "compiler/ops/fitting_sizes.h"
#include "compiler/ops/formula.h"
#include "compiler/ops/matmul_common.h"
#include "compiler/ops/reduction_common.h"
#include "compiler/reference/reference_context.h"
#include "compiler/support/parallel.h"

namespace fusec {
namespace {

// One operand as a batch of [rows, columns] matrices, whether or not it is stored transposed.
struct MatrixShape {
  Shape batch;
  Expr rows, columns;
};

MatrixShape MatrixShapeOf(ShapeRef shape, bool transposed) {
  const size_t rank = shape.size();
  return {Shape(shape.begin(), shape.end() - 2), shape[rank - (transposed ? 1 : 2)],
          shape[rank - (transposed ? 2 : 1)]};
}

Result<TensorType> InferProduct(const InferContext& context) {
  const TensorType& a = context.operand(0);
  const TensorType& b = context.operand(1);
  if (a.dtype != b.dtype || a.dtype == Dtype::kBool) {
    return ModelError(fmt::format("factors are {} and {}, expected the same type of numbers",
                                  DtypeName(a.dtype), DtypeName(b.dtype)));
  }
  FUSEC_ASSIGN(Shape shape, ShapeOfProduct({a, context.Int("transpose_a") != 0},
                                           {b, context.Int("transpose_b") != 0}));
  return TensorType{a.dtype, std::move(shape)};
}

// The layout of one operand's matrix.
struct MatrixView {
  const ReferenceTensor& tensor;
  int64_t rows, columns, row_stride, column_stride;

  MatrixView(const ReferenceTensor& tensor, bool transposed) : tensor(tensor) {
    const size_t rank = tensor.dims.size();
    rows = tensor.dims[rank - 2];
    columns = tensor.dims[rank - 1];
    row_stride = columns;
    column_stride = 1;
    if (transposed) {
      std::swap(rows, columns);
      std::swap(row_stride, column_stride);
    }
  }
  // The position of the first element of the matrix that broadcasts to matrix `batch` of the
  // result.
  int64_t Offset(ArrayRef<int64_t> batch) const {
    const std::vector<int64_t> own(tensor.dims.begin(), tensor.dims.end() - 2);
    return BroadcastPosition(own, batch) * rows * columns;
  }
};

// Computes rows first..last - 1 of c[i, j] = sum over k of a[i, k] * b[k, j], k ascending. The
// loops are in an order that reads the elements of b one after the other, for several rows at a
// time.
template <class T>
void MultiplyRows(const T* a, const MatrixView& left, const T* b, const MatrixView& right, T* c,
                  int64_t first, int64_t last) {
  constexpr int64_t kTogether = 8;
  const int64_t depth = left.columns, columns = right.columns;
  for (int64_t begin = first; begin < last; begin += kTogether) {
    const int64_t end = std::min(begin + kTogether, last);
    if (right.column_stride == 1) {
      std::fill(c + begin * columns, c + end * columns, T(0));
      for (int64_t k = 0; k < depth; ++k) {
        const T* const from = b + k * right.row_stride;
        for (int64_t i = begin; i < end; ++i) {
          const T x = a[i * left.row_stride + k * left.column_stride];
          T* const row = c + i * columns;
          for (int64_t j = 0; j < columns; ++j) row[j] += x * from[j];
        }
      }
      continue;
    }
    for (int64_t j = 0; j < columns; ++j) {
      const T* const from = b + j * right.column_stride;
      T sums[kTogether] = {};
      for (int64_t k = 0; k < depth; ++k) {
        const T* const x = a + begin * left.row_stride + k * left.column_stride;
        for (int64_t i = 0; i < end - begin; ++i)
          sums[i] += x[i * left.row_stride] * from[k * right.row_stride];
      }
      for (int64_t i = begin; i < end; ++i) c[i * columns + j] = sums[i - begin];
    }
  }
}

template <class T>
void MultiplyMatrices(const T* a, const MatrixView& left, const T* b, const MatrixView& right,
                      T* c) {
  ForRanges(left.rows, left.rows * left.columns * right.columns,
            [&](int64_t first, int64_t last, int64_t) {
              MultiplyRows(a, left, b, right, c, first, last);
            });
}

// NumPy's rules for vectors: a left vector becomes a row and a right one a column, and the added
// dim is removed from the result.
Result<void> ImportMatMul(ImportContext& context) {
  Value* a = context.input(0);
  Value* b = context.input(1);
  if (a->type.rank() == 0 || b->type.rank() == 0) {
    return context.Fail("a factor is a scalar, expected rank 1 or more");
  }
  Formula formula(context.builder());
  const bool left_vector = a->type.rank() == 1;
  const bool right_vector = b->type.rank() == 1;
  if (left_vector) a = formula.Reshape(a, {Expr(1), a->type.shape[0]});
  if (right_vector) b = formula.Reshape(b, {b->type.shape[0], Expr(1)});
  const Attributes attributes = {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{0}}};
  if (!left_vector && !right_vector) return context.AddNode(OpKind::kMatMul, {a, b}, attributes);
  Result<Node*> node = context.builder().Add(OpKind::kMatMul, {a, b}, attributes);
  if (!node) return tl::unexpected<Error>(node.error());
  Shape shape = (*node)->result()->type.shape;
  if (right_vector) shape.pop_back();
  if (left_vector) shape.erase(shape.end() - (right_vector ? 1 : 2));
  context.SetOutput(0, formula.Reshape((*node)->result(), shape));
  return {};
}

// With `to` = i32, the factors are u8 and i8 (passes/keep_integer_products.h); with `to` = f32, they
// are f16 (passes/exact_half_products.h).
struct MatMulOp {
  static constexpr AttributeSpec kAttributes[] = {
      {"transpose_a", "int"}, {"transpose_b", "int"}, {"to", "dtype", true}};
  static Result<void> Import(ImportContext& context) { return ImportMatMul(context); }
  static InferResult Infer(const InferContext& context) {
    if (context.attributes.count("to") != 0) return InferWiderResult(context);
    FUSEC_ASSIGN(TensorType type, InferProduct(context));
    return std::vector<TensorType>{std::move(type)};
  }
  static InferResult InferWiderResult(const InferContext& context) {
    const TensorType &a = context.operand(0), &b = context.operand(1);
    const Dtype to = std::get<Dtype>(context.attributes.at("to"));
    const bool is_of_integers =
        a.dtype == Dtype::kU8 && b.dtype == Dtype::kI8 && to == Dtype::kI32;
    const bool is_of_halves =
        a.dtype == Dtype::kF16 && b.dtype == Dtype::kF16 && to == Dtype::kF32;
    if (!is_of_integers && !is_of_halves) {
      return ModelError(fmt::format(
          "factors are {} and {}, expected u8 and i8 for a product in i32, or f16 for one in f32",
          DtypeName(a.dtype), DtypeName(b.dtype)));
    }
    FUSEC_ASSIGN(Shape shape, ShapeOfProduct({a, context.Int("transpose_a") != 0},
                                             {b, context.Int("transpose_b") != 0}));
    return std::vector<TensorType>{{to, std::move(shape)}};
  }
  static Result<void> Reference(ReferenceContext& context) {
    ReferenceProduct(context.input(0), context.node.Int("transpose_a") != 0, context.input(1),
                     context.node.Int("transpose_b") != 0, context.output());
    return {};
  }
};

// y = alpha * A' B' + beta * C, where ' transposes if transpose_a (transpose_b) is 1 and C
// broadcasts to [m, n].
struct GemmOp {
  static constexpr AttributeSpec kAttributes[] = {
      {"alpha", "float"}, {"beta", "float"}, {"transpose_a", "int"}, {"transpose_b", "int"}};
  static Result<void> Import(ImportContext& context) {
    ValueList operands = {context.input(0), context.input(1)};
    if (context.input_count() > 2) operands.push_back(context.input(2));
    return context.AddNode(OpKind::kGemm, operands,
                           {{"alpha", context.Float("alpha", 1.0)},
                            {"beta", context.Float("beta", 1.0)},
                            {"transpose_a", int64_t{context.Int("transA", 0) != 0}},
                            {"transpose_b", int64_t{context.Int("transB", 0) != 0}}});
  }

  static InferResult Infer(const InferContext& context) {
    for (int i = 0; i < 2; ++i) {
      if (context.operand(i).rank() != 2) {
        return ModelError(
            fmt::format("factor {} is {}, expected rank 2", i, context.operand(i).ToString()));
      }
    }
    FUSEC_ASSIGN(TensorType type, InferProduct(context));
    if (context.has_operand(2)) {
      const TensorType& addend = context.operand(2);
      const Result<Shape> shape = BroadcastShapes({type.shape, addend.shape});
      if (addend.dtype != type.dtype || !shape || *shape != type.shape) {
        return ModelError(fmt::format("the addend is {}, expected one that broadcasts to {}",
                                      addend.ToString(), type.ToString()));
      }
    }
    for (const char* name : {"alpha", "beta"}) {
      const double factor = std::get<double>(context.attributes.at(name));
      if (!IsFloat(type.dtype) && factor != std::trunc(factor)) {
        return ModelError(fmt::format("{} is {}, expected a whole number for {} matrices", name,
                                      factor, DtypeName(type.dtype)));
      }
    }
    return std::vector<TensorType>{std::move(type)};
  }

  static Result<void> Reference(ReferenceContext& context) {
    const double alpha = context.node.Float("alpha");
    const double beta = context.node.Float("beta");
    ReferenceTensor& y = context.output();
    ReferenceProduct(context.input(0), context.node.Int("transpose_a") != 0, context.input(1),
                     context.node.Int("transpose_b") != 0, y);
    for (double& value : y.reals) value *= alpha;
    for (int64_t& value : y.ints) value *= static_cast<int64_t>(alpha);
    if (context.has_input(2)) {
      const ReferenceTensor& addend = context.input(2);
      int64_t to = 0;
      ForEachIndex(y.dims, [&](ArrayRef<int64_t> index) {
        const int64_t from = BroadcastPosition(addend.dims, index);
        if (IsFloat(y.dtype))
          y.reals[to] += beta * addend.reals[from];
        else
          y.ints[to] += static_cast<int64_t>(beta) * addend.ints[from];
        ++to;
      });
    }
    y.WrapInts();
    return {};
  }

  static Result<ValueList> Decompose(const Node& node, Builder& builder) {
    Formula f(builder);
    Value* y = f.MatMul(node.operand(0), node.operand(1), node.Int("transpose_a") != 0,
                        node.Int("transpose_b") != 0);
    if (node.Float("alpha") != 1.0) y = f.Mul(y, node.Float("alpha"));
    if (Value* addend = node.operand(2)) {
      if (node.Float("beta") != 1.0) addend = f.Mul(addend, node.Float("beta"));
      y = f.Add(y, addend);
    }
    return ValueList{y};
  }
};

}  // namespace

Result<Shape> ShapeOfProduct(const MatMulFactor& a, const MatMulFactor& b) {
  if (a.type.rank() < 2 || b.type.rank() < 2) {
    return ModelError(fmt::format("factors have rank {} and {}, expected 2 or more", a.type.rank(),
                                  b.type.rank()));
  }
  const MatrixShape left = MatrixShapeOf(a.type.shape, a.transposed);
  const MatrixShape right = MatrixShapeOf(b.type.shape, b.transposed);
  if (left.columns != right.rows) {
    return SizesDiffer(fmt::format("{} times {}: the left factor has {} columns, the right {} rows",
                                   a.type.ToString(), b.type.ToString(), left.columns.ToString(),
                                   right.rows.ToString()),
                       left.columns, right.rows);
  }
  FUSEC_ASSIGN(Shape shape, BroadcastShapes({left.batch, right.batch}));
  shape.push_back(left.rows);
  shape.push_back(right.columns);
  return shape;
}

void ReferenceProduct(const ReferenceTensor& a, bool transpose_a, const ReferenceTensor& b,
                      bool transpose_b, ReferenceTensor& product) {
  const MatrixView left(a, transpose_a);
  const MatrixView right(b, transpose_b);
  int64_t to = 0;
  ForEachIndex(ArrayRef(product.dims).drop_back(2), [&](ArrayRef<int64_t> batch) {
    const int64_t i = left.Offset(batch);
    const int64_t j = right.Offset(batch);
    if (IsFloat(product.dtype)) {
      MultiplyMatrices(a.reals.data() + i, left, b.reals.data() + j, right,
                       product.reals.data() + to);
    } else {
      MultiplyMatrices(a.ints.data() + i, left, b.ints.data() + j, right, product.ints.data() + to);
    }
    to += left.rows * right.columns;
  });
  product.WrapInts();
}

FUSEC_DEFINE_OP(Gemm)
FUSEC_DEFINE_OP(MatMul)

}  // namespace fusec
