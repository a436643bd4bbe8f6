// The discrete Fourier transform as a product with its matrix of roots of unity.
#include <fmt/format.h>

#include <cmath>

#include "compiler/ops/formula.h"
#include "compiler/ops/places.h"
#include "compiler/ops/view_support.h"

namespace fusec {
namespace {

// The DFT matrix [terms * parts, results * 2]: what the real (and imaginary) part of each of
// `terms` elements contributes to the real and imaginary part of each of `results`. Entries are
// exp(-+ 2 pi i n m / length), divided by `length` for the inverse.
std::vector<double> Roots(int64_t terms, int64_t parts, int64_t results, int64_t length,
                          bool inverse) {
  std::vector<double> matrix(terms * parts * results * 2);
  const double scale = inverse ? 1.0 / static_cast<double>(length) : 1.0;
  for (int64_t n = 0; n < terms; ++n) {
    for (int64_t m = 0; m < results; ++m) {
      const double turns = static_cast<double>(n * m % length) / static_cast<double>(length);
      const double angle = (inverse ? 2 : -2) * M_PI * turns;
      const double real = std::cos(angle) * scale, imaginary = std::sin(angle) * scale;
      double* row = &matrix[n * parts * results * 2 + m * 2];
      row[0] = real;
      row[1] = imaginary;
      if (parts == 1) continue;
      row[results * 2] = -imaginary;
      row[results * 2 + 1] = real;
    }
  }
  return matrix;
}

// The matrix [terms * 2, results] of the inverse DFT for N = `results` real results, from the first
// N / 2 + 1 of N complex elements; the others are the conjugates of these.
std::vector<double> RealRoots(int64_t terms, int64_t results) {
  std::vector<double> matrix(terms * 2 * results);
  for (int64_t m = 0; m < terms; ++m) {
    const bool is_alone = m == 0 || 2 * m == results;
    const double scale = (is_alone ? 1.0 : 2.0) / static_cast<double>(results);
    for (int64_t n = 0; n < results; ++n) {
      const double turns = static_cast<double>(n * m % results) / static_cast<double>(results);
      matrix[(2 * m) * results + n] = std::cos(2 * M_PI * turns) * scale;
      matrix[(2 * m + 1) * results + n] = is_alone ? 0 : -std::sin(2 * M_PI * turns) * scale;
    }
  }
  return matrix;
}

// The DFT matrix for a symbolic or long length, computed by the graph instead of stored; it has
// `length` terms. n * m is reduced modulo the length as an integer, so that the angles stay exact.
Value* ComputedRoots(Formula& f, const Expr& length, const Expr& results, int64_t parts,
                     bool inverse, Dtype real) {
  Value* n = f.Reshape(f.Iota(0, length), {length, 1});
  Value* m = f.Reshape(f.Iota(0, results), {1, results});
  Value* size = SizeOf(f, length);
  Value* turns = f.Make(OpKind::kMod, {f.Mul(n, m), size}, {{"fmod", int64_t{0}}});
  Value* count = f.Cast(size, real);
  Value* angle = f.Div(f.Mul(f.Cast(turns, real), (inverse ? 2 : -2) * M_PI), count);
  Value* cosine = f.Unary(OpKind::kCos, angle);
  Value* sine = f.Unary(OpKind::kSin, angle);
  if (inverse) {
    cosine = f.Div(cosine, count);
    sine = f.Div(sine, count);
  }
  const auto pair = [&](Value* first, Value* second) {
    const Shape apart = {length, 1, results, 1};
    return f.Concat({f.Reshape(first, apart), f.Reshape(second, apart)}, 3);
  };
  Value* rows = pair(cosine, sine);
  if (parts == 2) rows = f.Concat({rows, pair(f.Unary(OpKind::kNeg, sine), cosine)}, 1);
  return f.Reshape(rows, {length * parts, results * 2});
}

}  // namespace

// y[m] = sum over n of x[n] exp(-2 pi i n m / N) along an axis. The last axis holds the real part,
// or the real and the imaginary part. The inverse has +2 pi i and divides by N. N is dft_length, to
// which x is cut or zero-padded; it must be a constant, or the dim itself. With onesided, only m =
// 0..N/2 of a real x are computed, and the inverse takes these and gives real numbers.
Result<void> ImportDFT(ImportContext& context) {
  constexpr int64_t kLongest = 1024;  // longest DFT with a stored matrix (up to 16 MB)
  Value* x = context.input(0);
  const Shape shape = x->type.shape;
  const int rank = x->type.rank();
  if (rank < 2 || !(shape.back().IsConstant(1) || shape.back().IsConstant(2))) {
    return context.Fail(fmt::format(
        "the input is {}, expected rank 2 or more and 1 or 2 parts of a number along its last axis",
        x->type.ToString()));
  }
  int64_t given = context.Int("axis", context.opset() < 20 ? 1 : -2);
  if (HasInput(context, 2)) {
    FUSEC_ASSIGN(const std::vector<int64_t> axes, context.ConstantInts(2, "axis"));
    if (axes.size() != 1) return context.Fail("axis is empty or a list, expected a number");
    given = axes[0];
  }
  FUSEC_ASSIGN(const int64_t axis, ImportAxis(context, given, rank));
  if (axis == rank - 1) return context.Fail("axis is the last, which holds the parts of a number");
  Exprs length = {shape[axis]};
  if (HasInput(context, 1)) {
    FUSEC_ASSIGN(length, context.SymbolicInts(1, "dft_length"));
  }
  if (length.size() != 1) return context.Fail("dft_length is empty or a list, expected a number");
  const int64_t parts = *shape.back().AsConstant();
  const bool inverse = context.Int("inverse", 0) != 0, onesided = context.Int("onesided", 0) != 0;
  if (onesided && inverse != (parts == 2)) {
    return context.Fail(
        "onesided applies to the transform of real numbers and to the inverse of complex ones");
  }
  const bool to_real = onesided && inverse;
  std::optional<int64_t> size = length[0].AsConstant();
  const std::optional<int64_t> known = shape[axis].AsConstant();
  const bool is_stored = size && *size <= kLongest;
  const bool is_free = !is_stored && length[0] == shape[axis] && !to_real;
  if (!is_free && (!size || !known || *size < 1 || *size > kLongest)) {
    return context.Fail(
        fmt::format("axis {} has {} elements, and its length is {}, expected numbers "
                    "from 1 to {}, or the dim itself",
                    axis, shape[axis].ToString(), length[0].ToString(), kLongest));
  }
  if (to_real && !HasInput(context, 1)) size = 2 * (*size - 1);
  const Expr whole = is_free ? length[0] : Expr(*size);
  const Expr results = onesided && !inverse ? FloorDiv(whole, 2, context.ranges()) + 1 : whole;
  // Zero padding contributes nothing.
  const Expr terms = is_free ? whole : Expr(std::min(*known, to_real ? *size / 2 + 1 : *size));
  Formula f(context);
  const Dtype dtype = x->type.dtype, real = ComputeDtype(dtype);
  std::vector<int64_t> perm, back(rank);
  for (int i = 0; i < rank; ++i) {
    if (i != axis && i != rank - 1) perm.push_back(i);
  }
  Shape rows;
  for (int64_t i : perm) rows.push_back(shape[i]);
  perm.insert(perm.end(), {axis, rank - 1});
  for (int i = 0; i < rank; ++i) back[perm[i]] = i;
  Value* line = f.Transpose(f.Slice(f.Cast(x, real), static_cast<int>(axis), 0, terms), perm);
  const int64_t made = to_real ? 1 : 2;  // parts of a result
  Value* matrix = nullptr;
  if (is_free) {
    matrix = ComputedRoots(f, whole, results, parts, inverse, real);
  } else {
    const int64_t from = *terms.AsConstant(), to = *results.AsConstant();
    matrix = f.Tensor(real, {from * parts, to * made},
                      to_real ? RealRoots(from, to) : Roots(from, parts, to, *size, inverse));
  }
  Value* y = f.MatMul(f.Reshape(line, {Product(rows), terms * parts}), matrix);
  rows.push_back(results);
  rows.push_back(made);
  return f.Finish({f.Cast(f.Transpose(f.Reshape(y, rows), back), dtype)});
}

}  // namespace fusec
