// The preprocessing of features.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "compiler/import/ml/ml_ops.h"

namespace fusec {

namespace {

// A vector along the last axis of `x`, or one number. An error if it is neither.
Result<Value*> AlongLast(ImportContext& context, Formula& f, const Value* x,
                         const std::vector<double>& values, Dtype dtype, const std::string& what) {
  const auto count = static_cast<int64_t>(values.size());
  if (count == 1) return f.Number(values[0], dtype, what);
  if (x->type.rank() > 0 && x->type.shape.back() == Expr(count))
    return context.builder().Constant(
        TensorData::From<double>(dtype, {count}, std::vector<double>(values)), what);
  return context.Fail(
      fmt::format("{} numbers ({}) do not fit {}", count, what, x->type.ToString()));
}

}  // namespace

// y = (x - offset) * scale
Result<void> ImportScaler(ImportContext& context) {
  Formula f(context);
  Value* x = f.Cast(context.input(0), Dtype::kF32);
  FUSEC_ASSIGN(Value * offset,
               AlongLast(context, f, x, context.Floats("offset"), Dtype::kF32, "offset"));
  FUSEC_ASSIGN(Value * scale,
               AlongLast(context, f, x, context.Floats("scale"), Dtype::kF32, "scale"));
  return f.Finish({f.Mul(f.Sub(x, offset), scale)});
}

// y = x / norm of its row, but rows whose norm is 0 stay zeros
Result<void> ImportNormalizer(ImportContext& context) {
  Formula f(context);
  Value* x = f.Cast(context.input(0), Dtype::kF32);
  const int64_t last = x->type.rank() - 1;
  if (last < 0) return context.Fail("x is a scalar, expected rows");
  const std::string norm = context.String("norm", "MAX");
  Value* size = nullptr;
  if (norm == "MAX") {
    size = f.Reduce(OpKind::kReduceMax, x, {last});
  } else if (norm == "L1") {
    size = f.Reduce(OpKind::kReduceSum, f.Unary(OpKind::kAbs, x), {last});
  } else if (norm == "L2") {
    size = f.Unary(OpKind::kSqrt, f.Reduce(OpKind::kReduceSum, f.Mul(x, x), {last}));
  } else {
    return context.Fail("norm is \"" + norm + "\", expected MAX, L1 or L2");
  }
  Value* is_zero = f.Make(OpKind::kEqual, {size, f.Number(0, Dtype::kF32)});
  return f.Finish({f.Where(is_zero, x, f.Div(x, size))});
}

Result<void> ImportBinarizer(ImportContext& context) {
  Formula f(context);
  Value* x = context.input(0);
  const Dtype dtype = x->type.dtype;
  Value* above = f.Make(OpKind::kGreater, {x, f.Number(context.Float("threshold", 0), dtype)});
  return f.Finish({f.Where(above, f.Number(1, dtype), f.Number(0, dtype))});
}

// A map of labels to scores per row, which stays the tensor of the scores.
Result<void> ImportZipMap(ImportContext& context) {
  context.Warn("its maps become one tensor, with a column for each label");
  return context.AddNode(OpKind::kIdentity, {context.input(0)});
}

// Replaces a number, often NaN, by one for each column.
Result<void> ImportImputer(ImportContext& context) {
  Formula f(context);
  Value* x = context.input(0);
  const Dtype dtype = x->type.dtype;
  std::vector<double> values = context.Floats("imputed_value_floats");
  double replaced = context.Float("replaced_value_float", 0);
  if (IsInteger(dtype)) {
    const std::vector<int64_t> integers = context.Ints("imputed_value_int64s");
    values.assign(integers.begin(), integers.end());
    replaced = static_cast<double>(context.Int("replaced_value_int64", 0));
  }
  FUSEC_ASSIGN(Value * imputed, AlongLast(context, f, x, values, dtype, "imputed"));
  Value* is_missing = std::isnan(replaced) ? f.Unary(OpKind::kIsNaN, x)
                                           : f.Make(OpKind::kEqual, {x, f.Number(replaced, dtype)});
  return f.Finish({f.Where(is_missing, imputed, x)});
}

// Columns of x, by number.
Result<void> ImportArrayFeatureExtractor(ImportContext& context) {
  Formula f(context);
  Value* x = context.input(0);
  Value* columns = context.input(1);
  if (x->type.rank() == 0) return context.Fail("x is a scalar, expected columns");
  if (x->type.rank() == 1) x = f.Reshape(x, {Expr(1), x->type.shape[0]});
  columns = f.Reshape(columns, {columns->type.ElementCount()});
  return f.Finish({f.GatherOrFail(x, columns, x->type.rank() - 1)});
}

// The inputs side by side, as f32.
Result<void> ImportFeatureVectorizer(ImportContext& context) {
  Formula f(context);
  ValueList parts;
  for (int i = 0; i < context.input_count(); ++i) {
    Value* part = context.input(i);
    if (part->type.rank() == 1) part = f.Reshape(part, {Expr(1), part->type.shape[0]});
    if (part->type.rank() != 2) {
      return context.Fail(fmt::format("input {} is {}, expected [rows, features]", i,
                                      context.input(i)->type.ToString()));
    }
    parts.push_back(f.Cast(part, Dtype::kF32));
  }
  return f.Finish({f.Concat(parts, 1)});
}

// One more axis, with 1 where the category is x and 0 elsewhere.
Result<void> ImportOneHotEncoder(ImportContext& context) {
  Formula f(context);
  Value* x = context.input(0);
  const std::vector<int64_t> categories = context.Ints("cats_int64s");
  if (categories.empty())
    return context.Fail("its categories are strings, which fusec does not support");
  if (context.Int("zeros", 1) == 0)
    return context.Fail("zeros is 0 (unknown categories are errors), which fusec does not support");
  Shape shape = x->type.shape;
  shape.push_back(Expr(1));
  const auto count = static_cast<int64_t>(categories.size());
  Value* each = context.builder().Constant(
      TensorData::From<int64_t>(Dtype::kI64, {count}, std::vector<int64_t>(categories)),
      "categories");
  Value* same = f.Make(OpKind::kEqual, {f.Reshape(f.Cast(x, Dtype::kI64), shape), each});
  return f.Finish({f.Cast(same, Dtype::kF32)});
}

namespace {

// A vector of LabelEncoder's attribute `name`, as three attributes spell it; nullopt if none does.
std::optional<TensorData> Listed(const ImportContext& context, const std::string& name) {
  if (const std::optional<TensorData> tensor = context.Tensor(name + "_tensor")) return tensor;
  if (context.Has(name + "_int64s")) {
    std::vector<int64_t> values = context.Ints(name + "_int64s");
    const auto count = static_cast<int64_t>(values.size());
    return TensorData::From<int64_t>(Dtype::kI64, {count}, std::move(values));
  }
  if (context.Has(name + "_floats")) {
    std::vector<double> values = context.Floats(name + "_floats");
    const auto count = static_cast<int64_t>(values.size());
    return TensorData::From<double>(Dtype::kF32, {count}, std::move(values));
  }
  return std::nullopt;
}

// The elements of `data` at `order`, and then `padding` more, the last one again.
TensorData InOrder(const TensorData& data, const std::vector<int64_t>& order, int64_t padding) {
  const auto count = static_cast<int64_t>(order.size());
  TensorData sorted(data.dtype(), {count + padding});
  for (int64_t i = 0; i < count + padding; ++i) {
    const int64_t from = order[std::min(i, count - 1)];
    if (IsFloat(data.dtype()))
      sorted.SetDouble(i, data.GetDouble(from));
    else
      sorted.SetInt(i, data.GetInt(from));
  }
  return sorted;
}

// Whether key `a` comes before key `b`. NaN comes last, and the first of equal keys first.
bool Precedes(const TensorData& keys, int64_t a, int64_t b) {
  if (IsInteger(keys.dtype()))
    return keys.GetInt(a) != keys.GetInt(b) ? keys.GetInt(a) < keys.GetInt(b) : a < b;
  const double x = keys.GetDouble(a), y = keys.GetDouble(b);
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) == std::isnan(y) ? a < b : std::isnan(y);
  return x != y ? x < y : a < b;
}

// The value for keys that are not listed.
Value* DefaultValue(const ImportContext& context, Formula& f, Dtype dtype) {
  if (const std::optional<TensorData> tensor = context.Tensor("default_tensor")) {
    if (tensor->element_count() == 1)
      return f.Number(
          IsFloat(tensor->dtype()) ? tensor->GetDouble(0) : static_cast<double>(tensor->GetInt(0)),
          dtype);
  }
  if (IsFloat(dtype)) return f.Number(context.Float("default_float", -0.0), dtype);
  return f.Number(static_cast<double>(context.Int("default_int64", -1)), dtype);
}

}  // namespace

// The value that is listed for the key x, found by bisection of the sorted keys.
Result<void> ImportLabelEncoder(ImportContext& context) {
  Formula f(context);
  Value* x = context.input(0);
  const std::optional<TensorData> keys = Listed(context, "keys"),
                                  values = Listed(context, "values");
  if (!keys || !values) {
    return context.Fail(
        "its keys or values are strings, or missing; fusec supports integers and floats");
  }
  const int64_t count = keys->element_count();
  if (count == 0 || values->element_count() != count) {
    return context.Fail(fmt::format("{} keys and {} values, expected as many, and one or more",
                                    count, values->element_count()));
  }
  if (keys->dtype() != x->type.dtype) {
    return context.Fail(
        fmt::format("x is {}, and its keys {}", x->type.ToString(), DtypeName(keys->dtype())));
  }
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int64_t a, int64_t b) { return Precedes(*keys, a, b); });
  int64_t steps = 1;
  while (steps < count) steps *= 2;
  Builder& builder = context.builder();
  Value* sorted = builder.Constant(InOrder(*keys, order, steps - count), "keys");
  Value* listed = builder.Constant(InOrder(*values, order, steps - count), "values");
  const auto at = [&](Value* table, Value* place) { return f.Gather(table, place); };
  // `place` is the last key that is less than x, -1 if there is none; at most steps - 2.
  Value* place = f.Expand(f.Number(-1, Dtype::kI32), x->type.shape);
  for (int64_t step = steps / 2; step > 0; step /= 2) {
    Value* jump = f.Number(static_cast<double>(step), Dtype::kI32, "jump");
    Value* next = f.Make(OpKind::kAdd, {place, jump}, {}, "next");
    Value* is_less = f.Make(OpKind::kLess, {at(sorted, next), x});
    place = f.Make(OpKind::kWhere, {is_less, next, place}, {}, "place");
  }
  place = f.Add(place, 1.0);
  Value* is_listed = f.Make(OpKind::kEqual, {at(sorted, place), x});
  Value* value = at(listed, place);
  if (IsFloat(keys->dtype()) && std::isnan(keys->GetDouble(order.back()))) {
    // NaN is a key, the last one; no comparison finds it.
    Value* is_nan = f.Unary(OpKind::kIsNaN, x);
    Value* of_nan = at(listed, f.Number(static_cast<double>(count - 1), Dtype::kI32));
    value = f.Where(is_nan, of_nan, value);
    is_listed = f.Make(OpKind::kOr, {is_listed, is_nan});
  }
  return f.Finish({f.Where(is_listed, value, DefaultValue(context, f, values->dtype()))});
}

}  // namespace fusec
