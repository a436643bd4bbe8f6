// Resize and its older name Upsample: each element along a resized axis is a weighted sum of a few
// elements of the original axis.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "compiler/ops/formula.h"
#include "compiler/ops/view_support.h"

namespace fusec {
namespace {

// How one axis is resized.
struct AxisResize {
  int64_t in = 0, out = 0;
  double scale = 1;           // out / in, as the model gives it
  double begin = 0, end = 1;  // region of interest, as fractions of the axis
};

struct Method {
  std::string mode;         // nearest, linear, cubic
  std::string coordinates;  // coordinate_transformation_mode
  std::string rounding;     // nearest_mode
  double cubic = -0.75;     // cubic_coeff_a
  bool exclude_outside = false;
  bool antialias = false;
};

// The coordinate on the original axis of element `o` of the resized axis.
double Source(const Method& method, const AxisResize& axis, int64_t o) {
  const auto at = static_cast<double>(o);
  const auto in = static_cast<double>(axis.in), out = static_cast<double>(axis.out);
  const std::string& how = method.coordinates;
  if (how == "asymmetric") return at / axis.scale;
  if (how == "tf_half_pixel_for_nn") return (at + 0.5) / axis.scale;
  if (how == "align_corners") return axis.out == 1 ? 0 : at * (in - 1) / (out - 1);
  if (how == "tf_crop_and_resize") {
    if (axis.out == 1) return 0.5 * (axis.begin + axis.end) * (in - 1);
    return axis.begin * (in - 1) + at * (axis.end - axis.begin) * (in - 1) / (out - 1);
  }
  if (how == "pytorch_half_pixel" && axis.out == 1) return 0;
  double shift = 0;
  if (how == "half_pixel_symmetric") shift = in / 2 * (1 - out / (axis.scale * in));
  return shift + (at + 0.5) / axis.scale - 0.5;
}

int64_t Nearest(const Method& method, double x) {
  if (method.rounding == "floor") return static_cast<int64_t>(std::floor(x));
  if (method.rounding == "ceil") return static_cast<int64_t>(std::ceil(x));
  if (method.rounding == "round_prefer_ceil") return static_cast<int64_t>(std::floor(x + 0.5));
  return static_cast<int64_t>(std::ceil(x - 0.5));
}

// Keys' convolution kernel with parameter a.
double CubicWeight(double a, double x) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// The weight of each original element for coordinate x. Elements outside the axis are replaced by
// the nearest one inside, or left out with exclude_outside.
std::map<int64_t, double> Taps(const Method& method, const AxisResize& axis, double x) {
  std::map<int64_t, double> taps;
  const auto inside = [&](int64_t i) { return std::clamp<int64_t>(i, 0, axis.in - 1); };
  if (method.mode == "nearest") {
    taps[inside(Nearest(method, x))] = 1;
    return taps;
  }
  const double stretch = method.antialias ? std::min(axis.scale, 1.0) : 1.0;
  const double reach = (method.mode == "cubic" ? 2 : 1) / stretch;
  double total = 0;
  for (auto i = static_cast<int64_t>(std::floor(x - reach)); i <= std::ceil(x + reach); ++i) {
    const double distance = (static_cast<double>(i) - x) * stretch;
    const double weight = method.mode == "cubic" ? CubicWeight(method.cubic, distance)
                                                 : std::max(0.0, 1 - std::abs(distance));
    if (weight == 0 || (method.exclude_outside && inside(i) != i)) continue;
    taps[inside(i)] += weight;
    total += weight;
  }
  for (auto& [i, weight] : taps) weight /= total;
  if (taps.empty()) taps[inside(Nearest(method, x))] = 1;  // all taps are outside
  return taps;
}

// `x` with one axis resized. `outside` is the value where a crop lies outside of the data.
Value* Resized(Formula& f, Value* x, int axis, const Method& method, const AxisResize& resize,
               double outside) {
  std::vector<std::map<int64_t, double>> taps;
  std::vector<double> is_outside;
  size_t most = 1;
  for (int64_t o = 0; o < resize.out; ++o) {
    const double source = Source(method, resize, o);
    taps.push_back(Taps(method, resize, source));
    most = std::max(most, taps.back().size());
    is_outside.push_back(source < 0 || source > static_cast<double>(resize.in - 1) ? 1 : 0);
  }
  const auto along_axis = [&](Dtype dtype, const std::vector<double>& values) {
    return f.AlongAxis(f.Tensor(dtype, {resize.out}, values), axis, x->type.rank());
  };
  Value* sum = nullptr;
  for (size_t t = 0; t < most; ++t) {
    std::vector<double> places, weights;
    for (const auto& of_one : taps) {
      const bool is_there = t < of_one.size();
      const auto tap =
          is_there ? std::next(of_one.begin(), static_cast<int64_t>(t)) : of_one.begin();
      places.push_back(static_cast<double>(tap->first));
      weights.push_back(is_there ? tap->second : 0);
    }
    Value* term = f.Gather(x, f.Tensor(Dtype::kI64, {resize.out}, places), axis);
    if (method.mode != "nearest") {
      term = f.Mul(term, along_axis(x->type.dtype, weights));
    }
    sum = sum == nullptr ? term : f.Add(sum, term);
  }
  const bool crops = method.coordinates == "tf_crop_and_resize" &&
                     std::find(is_outside.begin(), is_outside.end(), 1) != is_outside.end();
  if (!crops) return sum;
  Value* condition = along_axis(Dtype::kBool, is_outside);
  return f.Where(condition, f.Number(outside, x->type.dtype), sum);
}

Result<std::vector<double>> Numbers(const ImportContext& context, int i, const std::string& what) {
  FUSEC_ASSIGN(const TensorData data, context.ConstantInput(i, what));
  std::vector<double> numbers;
  for (int64_t k = 0; k < data.element_count(); ++k) numbers.push_back(data.GetDouble(k));
  return numbers;
}

bool IsGiven(const ImportContext& context, int i) {
  return HasInput(context, i) && !context.input(i)->type.ElementCount().IsConstant(0);
}

// The inputs of a Resize, whose positions depend on the opset.
struct Sizes {
  std::vector<int64_t> axes;
  std::vector<double> scales, roi;  // either scales or sizes is given; roi lists begins, then ends
  Exprs sizes;
};

Result<Sizes> ImportSizes(const ImportContext& context, int rank) {
  Sizes given;
  for (int64_t i = 0; i < rank; ++i) given.axes.push_back(i);
  if (context.Has("axes")) {
    given.axes.clear();
    for (int64_t axis : context.Ints("axes")) {
      FUSEC_ASSIGN(axis, ImportAxis(context, axis, rank));
      given.axes.push_back(axis);
    }
  }
  if (context.Has("scales")) {
    given.scales = context.Floats("scales");
  } else if (context.opset() < 11) {
    FUSEC_ASSIGN(given.scales, Numbers(context, 1, "scales"));
  } else if (IsGiven(context, 2)) {
    FUSEC_ASSIGN(given.scales, Numbers(context, 2, "scales"));
  } else if (IsGiven(context, 3)) {
    FUSEC_ASSIGN(given.sizes, context.SymbolicInts(3, "sizes"));
  }
  if (context.opset() >= 11 && IsGiven(context, 1)) {
    FUSEC_ASSIGN(given.roi, Numbers(context, 1, "roi"));
  }
  const size_t count = given.axes.size();
  if (std::max(given.scales.size(), given.sizes.size()) != count ||
      (!given.roi.empty() && given.roi.size() != 2 * count)) {
    return context.Fail(fmt::format("scales has {} values, sizes {} and roi {}, for {} axes",
                                    given.scales.size(), given.sizes.size(), given.roi.size(),
                                    count));
  }
  return given;
}

// With sizes and a policy that keeps the aspect ratio, the common scale of all axes: the least
// ratio (not_larger) or the greatest; otherwise 0.
Result<double> CommonScale(const ImportContext& context, const Sizes& given, ShapeRef shape) {
  const std::string policy = context.String("keep_aspect_ratio_policy", "stretch");
  double common = 0;
  for (size_t i = 0; i < given.sizes.size() && policy != "stretch"; ++i) {
    const auto size = given.sizes[i].AsConstant(), in = shape[given.axes[i]].AsConstant();
    if (!size || !in || *in == 0) {
      return context.Fail("keep_aspect_ratio_policy needs fixed sizes");
    }
    const double ratio = static_cast<double>(*size) / static_cast<double>(*in);
    const bool is_better = policy == "not_larger" ? ratio < common : ratio > common;
    if (common == 0 || is_better) common = ratio;
  }
  return common;
}

Result<Method> ImportMethod(const ImportContext& context) {
  Method method;
  const bool is_old = context.opset() < 11;
  method.mode = context.String("mode", "nearest");
  method.coordinates =
      is_old ? "asymmetric" : context.String("coordinate_transformation_mode", "half_pixel");
  method.rounding = is_old ? "floor" : context.String("nearest_mode", "round_prefer_floor");
  method.cubic = context.Float("cubic_coeff_a", -0.75);
  method.exclude_outside = context.Int("exclude_outside", 0) != 0;
  method.antialias = context.Int("antialias", 0) != 0;
  if (method.mode != "nearest" && method.mode != "linear" && method.mode != "cubic") {
    return context.Fail("mode is " + method.mode + ", expected nearest, linear or cubic");
  }
  return method;
}

}  // namespace

Result<void> ImportResize(ImportContext& context) {
  constexpr double kLongest = 1 << 20, kFarthest = 1000;
  Value* x = context.input(0);
  const Shape shape = x->type.shape;
  FUSEC_ASSIGN(const Sizes given, ImportSizes(context, x->type.rank()));
  FUSEC_ASSIGN(const Method method, ImportMethod(context));
  const bool crops = method.coordinates == "tf_crop_and_resize";

  FUSEC_ASSIGN(const double common, CommonScale(context, given, shape));
  Formula f(context);
  const Dtype dtype = x->type.dtype;
  const Dtype real = IsFloat(dtype) ? ComputeDtype(dtype) : Dtype::kF32;
  Value* y = method.mode == "nearest" && !crops ? x : f.Cast(x, real);
  for (size_t i = 0; i < given.axes.size(); ++i) {
    const int64_t axis = given.axes[i];
    if (!given.sizes.empty() && common == 0 &&
        ProvenEqual(given.sizes[i], shape[axis], context.ranges()) && !crops) {
      continue;
    }
    if (given.sizes.empty() && given.scales[i] == 1 && !crops) continue;
    const std::optional<int64_t> in = shape[axis].AsConstant();
    AxisResize resize;
    if (!given.roi.empty() && crops) {
      resize.begin = given.roi[i];
      resize.end = given.roi[given.axes.size() + i];
      if (!(std::abs(resize.begin) <= kFarthest) || !(std::abs(resize.end) <= kFarthest)) {
        return context.Fail(fmt::format("roi is {} to {}, expected fractions of an axis",
                                        resize.begin, resize.end));
      }
      if (in && given.sizes.empty() && given.scales[i] == 1 && resize.begin == 0 && resize.end == 1)
        continue;
    }
    const auto out = given.sizes.empty() ? std::optional<int64_t>(0) : given.sizes[i].AsConstant();
    if (!in || *in < 1 || static_cast<double>(*in) > kLongest || !out) {
      return context.Fail(fmt::format("axis {} has {} elements, expected a fixed size to resize it",
                                      axis, shape[axis].ToString()));
    }
    resize.in = *in;
    double length = 0;
    if (given.sizes.empty()) {
      resize.scale = given.scales[i];
      const double part = crops ? resize.end - resize.begin : 1;
      length = std::floor(static_cast<double>(*in) * part * resize.scale);
    } else if (common != 0) {
      resize.scale = common;
      length = std::floor(static_cast<double>(*in) * common + 0.5);
    } else {
      length = static_cast<double>(*out);
      resize.scale = length / static_cast<double>(*in);
    }
    if (!(resize.scale > 0) || !(length >= 0 && length <= kLongest)) {
      return context.Fail(
          fmt::format("axis {} of {} elements is scaled by {}, expected a scale above "
                      "0 and at most {} elements",
                      axis, *in, resize.scale, kLongest));
    }
    resize.out = static_cast<int64_t>(length);
    y = Resized(f, y, static_cast<int>(axis), method, resize,
                context.Float("extrapolation_value", 0));
  }
  if (y->type.dtype != dtype && !IsFloat(dtype)) y = f.Unary(OpKind::kRound, y);
  return f.Finish({f.Cast(y == x ? f.Make(OpKind::kIdentity, {x}) : y, dtype)});
}

Result<void> ImportUpsample(ImportContext& context) { return ImportResize(context); }

}  // namespace fusec
