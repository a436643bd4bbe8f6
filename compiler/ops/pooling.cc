// Pooling: maxima, averages and norms of windows that slide over the spatial axes.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "compiler/ops/fitting_sizes.h"
#include "compiler/ops/places.h"
#include "compiler/ops/reduction_common.h"
#include "compiler/ops/windows.h"

namespace fusec {
namespace {

struct Pool {
  Windows windows;
  Shape out;                    // windows per spatial axis
  std::vector<int64_t> filled;  // pads that windows cover, which may be more with ceil_mode
};

// out = floor((size + pads - span) / stride) + 1. With ceil_mode the quotient is rounded up, but a
// window that would begin after the data and its first pad is dropped.
Result<Pool> ImportPool(const ImportContext& context) {
  const Shape& x = context.input(0)->type.shape;
  Pool pool;
  FUSEC_ASSIGN(pool.windows, ImportWindows(context, x));
  const auto& [kernel, strides, dilations, pads] = pool.windows;
  const bool ceil = context.Int("ceil_mode", 0) != 0;
  const size_t count = kernel.size();
  const Ranges& ranges = context.ranges();
  pool.filled = pads;
  for (size_t i = 0; i < count; ++i) {
    if (strides[i] < 1 || dilations[i] < 1 || pads[i] < 0 || pads[count + i] < 0) {
      return context.Fail("expected strides and dilations of at least 1 and pads of at least 0");
    }
    const Expr& size = x[2 + i];
    const int64_t span = pool.windows.Span(i);
    const Expr room = size + (pads[i] + pads[count + i]) - span;
    if (!ranges.ProvenNonNegative(room)) {
      return SizeTooSmall(fmt::format("axis {} has {} elements, too few for a window of {}", 2 + i,
                                      size.ToString(), span),
                          Expr(0), room);
    }
    if (!ceil || strides[i] == 1) {
      pool.out.push_back(FloorDiv(room, strides[i], ranges) + 1);
      continue;
    }
    const std::optional<int64_t> known = room.AsConstant();
    if (!known) {
      return context.Fail(fmt::format("ceil_mode with stride {} needs a fixed size, found {}",
                                      strides[i], size.ToString()));
    }
    int64_t windows = (*known + strides[i] - 1) / strides[i] + 1;
    if ((windows - 1) * strides[i] >= *size.AsConstant() + pads[i]) --windows;
    pool.out.push_back(windows);
    const int64_t reach = (windows - 1) * strides[i] + span;
    pool.filled[count + i] = std::max(pads[count + i], reach - *size.AsConstant() - pads[i]);
  }
  return pool;
}

// The lowest value of `dtype`.
double Lowest(Dtype dtype) {
  if (IsFloat(dtype)) return -std::numeric_limits<double>::infinity();
  return static_cast<double>(LeastInteger(dtype));
}

Shape Result4(const Shape& x, const Shape& out) {
  Shape shape = {x[0], x[1]};
  shape.insert(shape.end(), out.begin(), out.end());
  return shape;
}

Value* Fold(Formula& f, OpKind kind, Value* elements, const Shape& shape) {
  return f.Reshape(f.Reduce(kind, elements, {2}, /*keepdims=*/false), shape);
}

// Converts row-major positions in `spatial` to column-major ones (first axis fastest).
Value* ColumnMajor(Formula& f, Value* position, ShapeRef spatial) {
  Value* result = nullptr;
  for (size_t i = spatial.size(); i-- > 0;) {
    const Expr behind = Product(Shape(spatial.begin(), spatial.begin() + i));
    Value* size = SizeOf(f, spatial[i]);
    Value* rest = f.Div(position, size);
    Value* term = f.Mul(f.Sub(position, f.Mul(rest, size)), SizeOf(f, behind));
    result = result == nullptr ? term : f.Add(result, term);
    position = rest;
  }
  return result;
}

// The position in x, flattened, of the greatest element of each window (the first one if there are
// several, or the first NaN). `elements` are those of the windows, [N, C, places, windows].
Value* IndicesOfGreatest(Formula& f, Value* elements, const Shape& x, const Pool& pool,
                         bool column_major) {
  const Shape spatial(x.begin() + 2, x.end());
  const Expr size = Product(spatial);
  Shape of_positions = x;
  of_positions[0] = of_positions[1] = 1;
  Value* positions = f.Reshape(f.Iota(0, size), of_positions);
  positions = WindowElements(f, PadSpatial(f, positions, pool.filled, -1), pool.windows, pool.out);
  Value* greatest = f.Reduce(OpKind::kReduceMax, elements, {2});
  Value* is_it = f.Make(OpKind::kEqual, {elements, greatest});
  if (IsFloat(elements->type.dtype)) {
    is_it = f.Make(OpKind::kOr, {is_it, f.Make(OpKind::kIsNaN, {elements})});
  }
  Value* is_data = f.Make(OpKind::kGreaterOrEqual, {positions, f.Number(0, Dtype::kI64)});
  Value* candidates = f.Where(f.Make(OpKind::kAnd, {is_it, is_data}), positions, SizeOf(f, size));
  Value* first = f.Reduce(OpKind::kReduceMin, candidates, {2}, /*keepdims=*/false);
  if (column_major) first = ColumnMajor(f, first, spatial);
  Value* image = f.Reshape(f.Iota(0, x[0] * x[1]), {x[0], x[1], 1});
  return f.Add(f.Mul(image, SizeOf(f, size)), first);
}

Result<std::vector<int64_t>> SpatialAxes(const ImportContext& context) {
  const int rank = context.input(0)->type.rank();
  if (rank < 3) return context.Fail(fmt::format("x has rank {}, expected 3 or more", rank));
  return AxesFrom(2, rank);
}

// (sum |x|^p)^(1/p)
template <class Sum>
Value* Norm(Formula& f, Value* x, double p, Sum sum) {
  const Dtype dtype = x->type.dtype;
  Value* real = f.Unary(OpKind::kAbs, f.Cast(x, ComputeDtype(dtype)));
  const auto power = [&](Value* base, double exponent) {
    return f.Make(OpKind::kPow, {base, f.Number(exponent, base->type.dtype)});
  };
  if (p == 1) return f.Cast(sum(real), dtype);
  if (p == 2) return f.Cast(f.Unary(OpKind::kSqrt, sum(f.Mul(real, real))), dtype);
  return f.Cast(power(sum(power(real, p)), 1 / p), dtype);
}

Result<double> ImportNorm(const ImportContext& context) {
  const int64_t p = context.Int("p", 2);
  if (p < 1) return context.Fail(fmt::format("p is {}, expected 1 or more", p));
  return static_cast<double>(p);
}

}  // namespace

Result<void> ImportMaxPool(ImportContext& context) {
  FUSEC_ASSIGN(const Pool pool, ImportPool(context));
  Formula f(context);
  Value* x = context.input(0);
  const Shape shape = Result4(x->type.shape, pool.out);
  Value* padded = PadSpatial(f, x, pool.filled, Lowest(x->type.dtype));
  Value* elements = WindowElements(f, padded, pool.windows, pool.out);
  Value* greatest = Fold(f, OpKind::kReduceMax, elements, shape);
  if (!context.output_used(1)) return f.Finish({greatest});
  const bool column_major = context.Int("storage_order", 0) != 0;
  Value* indices = IndicesOfGreatest(f, elements, x->type.shape, pool, column_major);
  return f.Finish({greatest, f.Reshape(indices, shape)});
}

// The sum of a window divided by the number of its elements: those in the data, and with
// count_include_pad also those in the pads (but not those that ceil_mode adds).
Result<void> ImportAveragePool(ImportContext& context) {
  FUSEC_ASSIGN(const Pool pool, ImportPool(context));
  Formula f(context);
  Value* x = context.input(0);
  const Dtype dtype = x->type.dtype, real = ComputeDtype(dtype);
  const Shape shape = Result4(x->type.shape, pool.out);
  Value* padded = PadSpatial(f, f.Cast(x, real), pool.filled, 0);
  Value* sum =
      Fold(f, OpKind::kReduceSum, WindowElements(f, padded, pool.windows, pool.out), shape);
  const auto& pads = pool.windows.pads;
  const bool counts_pads = context.Int("count_include_pad", 0) != 0;
  const bool has_pads =
      std::any_of(pool.filled.begin(), pool.filled.end(), [](int64_t pad) { return pad != 0; });
  if (!has_pads || (counts_pads && pool.filled == pads)) {
    return f.Finish({f.Cast(f.Div(sum, static_cast<double>(pool.windows.Places())), dtype)});
  }
  Shape ones = x->type.shape;
  ones[0] = ones[1] = 1;
  std::vector<int64_t> beyond = pool.filled;
  Value* counted = f.Expand(f.Number(1, real), ones);
  if (counts_pads) {
    counted = PadSpatial(f, counted, pads, 1);
    for (size_t i = 0; i < beyond.size(); ++i) beyond[i] -= pads[i];
  }
  counted = PadSpatial(f, counted, beyond, 0);
  Value* count = Fold(f, OpKind::kReduceSum, WindowElements(f, counted, pool.windows, pool.out),
                      Result4(ones, pool.out));
  return f.Finish({f.Cast(f.Div(sum, count), dtype)});
}

Result<void> ImportLpPool(ImportContext& context) {
  FUSEC_ASSIGN(const Pool pool, ImportPool(context));
  FUSEC_ASSIGN(const double p, ImportNorm(context));
  Formula f(context);
  Value* x = context.input(0);
  const Shape shape = Result4(x->type.shape, pool.out);
  return f.Finish({Norm(f, x, p, [&](Value* terms) {
    Value* padded = PadSpatial(f, terms, pool.filled, 0);
    return Fold(f, OpKind::kReduceSum, WindowElements(f, padded, pool.windows, pool.out), shape);
  })});
}

Result<void> ImportGlobalAveragePool(ImportContext& context) {
  FUSEC_ASSIGN(const std::vector<int64_t> axes, SpatialAxes(context));
  Formula f(context);
  Value* x = context.input(0);
  Value* real = f.Cast(x, ComputeDtype(x->type.dtype));
  return f.Finish({f.Cast(f.Reduce(OpKind::kReduceMean, real, axes), x->type.dtype)});
}

Result<void> ImportGlobalMaxPool(ImportContext& context) {
  FUSEC_ASSIGN(const std::vector<int64_t> axes, SpatialAxes(context));
  Formula f(context);
  return f.Finish({f.Reduce(OpKind::kReduceMax, context.input(0), axes)});
}

Result<void> ImportGlobalLpPool(ImportContext& context) {
  FUSEC_ASSIGN(const std::vector<int64_t> axes, SpatialAxes(context));
  FUSEC_ASSIGN(const double p, ImportNorm(context));
  Formula f(context);
  return f.Finish({Norm(f, context.input(0), p,
                        [&](Value* terms) { return f.Reduce(OpKind::kReduceSum, terms, axes); })});
}

}  // namespace fusec
