#include <fmt/format.h>

#include "compiler/import/ml/ml_ops.h"

namespace fusec {

Result<Value*> FeatureRows(const ImportContext& context, Formula& f) {
  Value* x = context.input(0);
  if (x->type.rank() == 1) x = f.Reshape(x, {Expr(1), x->type.shape[0]});
  if (x == nullptr || x->type.rank() != 2) {
    return context.Fail(fmt::format("the features are {}, expected [rows, features]",
                                    context.input(0)->type.ToString()));
  }
  return f.Cast(x, x->type.dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32);
}

// SOFTMAX_ZERO is a softmax of the scores that are not 0; zeros stay.
Result<Value*> Transformed(const ImportContext& context, Formula& f, Value* scores,
                           const std::string& transform) {
  if (transform == "NONE") return scores;
  if (transform == "LOGISTIC") return f.Unary(OpKind::kSigmoid, scores);
  if (transform == "SOFTMAX") return f.Softmax(scores, 1);
  if (transform == "SOFTMAX_ZERO") {
    constexpr double kZero = 1e-7;  // as in onnxruntime
    const Dtype dtype = scores->type.dtype;
    Value* counts =
        f.Make(OpKind::kGreater, {f.Unary(OpKind::kAbs, scores), f.Number(kZero, dtype)});
    Value* most = f.Reduce(OpKind::kReduceMax, scores, {1});
    Value* weights =
        f.Where(counts, f.Unary(OpKind::kExp, f.Sub(scores, most)), f.Number(0, dtype));
    return f.Div(weights, f.Reduce(OpKind::kReduceSum, weights, {1}));
  }
  return context.Fail("post_transform is \"" + transform +
                      "\", expected NONE, LOGISTIC, SOFTMAX or SOFTMAX_ZERO");
}

Result<void> FinishClassifier(ImportContext& context, Formula& f, Value* chosen, Value* scores,
                              const std::string& labels) {
  const std::vector<int64_t> numbers = context.Ints(labels);
  Value* label = chosen;
  if (!numbers.empty()) {
    TensorData data = TensorData::From<int64_t>(Dtype::kI64, {static_cast<int64_t>(numbers.size())},
                                                std::vector<int64_t>(numbers));
    label = f.Gather(context.builder().Constant(std::move(data), "label"), chosen);
  } else if (context.output_used(0)) {
    context.Warn("its labels are strings; its output is their number in the model's list");
  }
  if (context.output_count() == 1) return f.Finish({label});
  return f.Finish({label, scores});
}

Result<void> FinishByGreatest(ImportContext& context, Formula& f, Value* scores,
                              const std::string& labels) {
  Value* chosen = f.Make(OpKind::kArgMax, {scores},
                         {{"axes", std::vector<int64_t>{1}},
                          {"keepdims", int64_t{0}},
                          {"select_last_index", int64_t{0}}});
  FUSEC_ASSIGN(scores, Transformed(context, f, scores, context.String("post_transform", "NONE")));
  return FinishClassifier(context, f, chosen, scores, labels);
}

}  // namespace fusec
