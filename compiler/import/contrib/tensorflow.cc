// Ops of TensorFlow that tf2onnx leaves in a graph because ONNX has none of their name, without a
// domain. onnxruntime refuses them. Keras's exact GELU is written with Erfc, and its Discretization
// layer with Bucketize.
#include <fmt/format.h>

#include "compiler/import/contrib/contrib_ops.h"

namespace fusec {
namespace {

// The number of boundaries that are at most x.
Result<std::string> Bucketize(const ContribNode& node) {
  Statements s;
  if (node.context().Floats("boundaries").empty()) {
    s.Set("output", fmt::format("Cast<to = 6>({})", s.Of("Sub", "input", "input")));
    return s.text();
  }
  const std::string x = IsFloat(node.Type("input").dtype) ? "input" : s.Of("Cast<to = 1>", "input");
  const std::string boundaries =
      s.Of("CastLike", s.Let("Constant<value_floats: floats = @boundaries>()"), x);
  const std::string column = s.Of("Unsqueeze", x, s.Ints({-1}));
  const std::string reached = s.Of("Cast<to = 6>", s.Of("GreaterOrEqual", column, boundaries));
  s.Set("output", fmt::format("ReduceSum<keepdims = 0>({}, {})", reached, s.Ints({-1})));
  return s.text();
}

constexpr ContribOp kOps[] = {
    {"Bucketize <boundaries, T> (input) => (output)", 1, nullptr, &Bucketize},
    {"Erfc <T> (x) => (y)", 1,
     "one = Constant<value_float = 1.0>() of_type = CastLike(one, x) erf = Erf(x) "
     "y = Sub(of_type, erf)"},
};

}  // namespace

ArrayRef<ContribOp> TensorFlowOps() { return kOps; }

}  // namespace fusec
