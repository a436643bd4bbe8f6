// y = x W' + b, with one row of W per class or target.
#include <fmt/format.h>

#include "compiler/import/ml/ml_ops.h"

namespace fusec {

namespace {

// x W' + b, [rows, `results`].
Result<Value*> Product(ImportContext& context, Formula& f, int64_t results) {
  FUSEC_ASSIGN(Value * x, FeatureRows(context, f));
  const std::vector<double> weights = context.Floats("coefficients");
  const std::vector<double> bias = context.Floats("intercepts");
  const auto count = static_cast<int64_t>(weights.size());
  const std::optional<int64_t> features = x->type.shape[1].AsConstant();
  if (results < 1 || count % results != 0 || (features && *features * results != count)) {
    return context.Fail(fmt::format("{} coefficients do not fit {} rows of weights for x, {}",
                                    count, results, x->type.ToString()));
  }
  if (!bias.empty() && static_cast<int64_t>(bias.size()) != results)
    return context.Fail(fmt::format("{} intercepts, expected {}", bias.size(), results));
  x = f.Cast(x, Dtype::kF32);
  const auto constant = [&](std::vector<int64_t> dims, const std::vector<double>& values,
                            const std::string& name) {
    return context.builder().Constant(
        TensorData::From<double>(Dtype::kF32, std::move(dims), std::vector<double>(values)), name);
  };
  Value* matrix = constant({results, count / results}, weights, "coefficients");
  Value* y = f.MatMul(x, matrix, false, /*transpose_b=*/true);
  return bias.empty() ? y : f.Add(y, constant({results}, bias, "intercepts"));
}

}  // namespace

Result<void> ImportLinearRegressor(ImportContext& context) {
  Formula f(context);
  FUSEC_ASSIGN(Value * y, Product(context, f, context.Int("targets", 1)));
  FUSEC_ASSIGN(y, Transformed(context, f, y, context.String("post_transform", "NONE")));
  return f.Finish({y});
}

// With one row of weights and two labels, a score above 0 is of the second label; the first one's
// score is 1 - score. (onnxruntime, linearclassifier.cc)
Result<void> ImportLinearClassifier(ImportContext& context) {
  Formula f(context);
  const std::string transform = context.String("post_transform", "NONE");
  const size_t labels = std::max(context.Ints("classlabels_ints").size(),
                                 context.Strings("classlabels_strings").size());
  const size_t rows = context.Floats("intercepts").size();
  FUSEC_ASSIGN(Value * scores, Product(context, f, static_cast<int64_t>(rows)));
  if (rows == labels && labels > 1) {
    return FinishByGreatest(context, f, scores, "classlabels_ints");
  }
  if (rows != 1 || labels != 2)
    return context.Fail(
        fmt::format("{} rows of weights and {} labels, expected as many", rows, labels));
  Value* is_second = f.Make(OpKind::kGreater, {scores, f.Number(0, Dtype::kF32)});
  Value* chosen = f.Cast(f.Reshape(is_second, {scores->type.shape[0]}), Dtype::kI64);
  if (transform == "LOGISTIC") {
    scores = f.Unary(OpKind::kSigmoid, scores);
  } else if (transform != "NONE") {
    return context.Fail("post_transform is \"" + transform +
                        "\" for one row of weights, expected NONE or LOGISTIC");
  }
  Value* first = f.Sub(f.Number(1, Dtype::kF32), scores);
  return FinishClassifier(context, f, chosen, f.Concat({first, scores}, 1), "classlabels_ints");
}

}  // namespace fusec
