#include <cmath>
#include <limits>

#include "tests/unit/ops/view_harness.h"

namespace fusec {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A graph of one ONNX node, whose operands are inputs with the types of `tensors`, followed by `constants`.
struct OneNode {
  explicit OneNode(std::vector<ReferenceTensor> given) : tensors(std::move(given)) {
    for (const ReferenceTensor& tensor : tensors) {
      inputs.push_back(
          graph.AddInput("x", {tensor.dtype, Shape(tensor.dims.begin(), tensor.dims.end())}));
    }
  }
  FakeImport Import(const std::string& op, int outputs = 1) {
    return FakeImport(graph, op, 18, inputs, outputs);
  }
  Result<std::vector<ReferenceTensor>> Answers(FakeImport& import) {
    FUSEC_TRY(import.Run());
    graph.outputs = import.outputs;
    return Interpret(graph, tensors);
  }
  Graph graph;
  std::vector<ReferenceTensor> tensors;
  ValueList inputs;
};

std::vector<double> CumSum(const ReferenceTensor& x, int64_t axis, int64_t exclusive,
                           int64_t reverse) {
  OneNode node({x});
  node.inputs.push_back(IntScalar(node.graph, axis));
  FakeImport import = node.Import("CumSum");
  import.With("exclusive", exclusive).With("reverse", reverse);
  return Values((*node.Answers(import))[0]);
}

TEST(CumSum, AllDirections) {
  const ReferenceTensor x = Tensor(Dtype::kF32, {3}, {1, 2, 4});
  EXPECT_EQ(CumSum(x, 0, 0, 0), (std::vector<double>{1, 3, 7}));
  EXPECT_EQ(CumSum(x, 0, 1, 0), (std::vector<double>{0, 1, 3}));
  EXPECT_EQ(CumSum(x, 0, 0, 1), (std::vector<double>{7, 6, 4}));
  EXPECT_EQ(CumSum(x, 0, 1, 1), (std::vector<double>{6, 4, 0}));
  EXPECT_EQ(CumSum(Iota(Dtype::kF32, {2, 2}), -2, 0, 0), (std::vector<double>{0, 1, 2, 4}));
  EXPECT_EQ(CumSum(Tensor(Dtype::kI32, {2}, {2147483647, 1}), 0, 0, 0),
            (std::vector<double>{2147483647, -2147483648.0}));
  EXPECT_TRUE(CumSum(ReferenceTensor(Dtype::kF32, {2, 0}), 0, 0, 0).empty());
}

std::pair<std::vector<double>, std::vector<double>> TopK(const ReferenceTensor& x, int64_t k,
                                                         int64_t largest, int64_t axis = -1) {
  OneNode node({x});
  node.inputs.push_back(IntsConstant(node.graph, {k}));
  FakeImport import = node.Import("TopK", 2);
  import.With("largest", largest).With("axis", axis);
  const auto answers = node.Answers(import);
  EXPECT_TRUE(answers) << answers.error().message;
  return {Values((*answers)[0]), Values((*answers)[1])};
}

TEST(TopK, TiesTakeTheLowerIndexFirst) {
  const ReferenceTensor x = Tensor(Dtype::kF32, {5}, {1, 3, 3, -kInfinity, 1});
  EXPECT_EQ(TopK(x, 3, 1).second, (std::vector<double>{1, 2, 0}));
  EXPECT_EQ(TopK(x, 3, 0).second, (std::vector<double>{3, 0, 4}));
  EXPECT_TRUE(TopK(x, 0, 1).first.empty());
}

TEST(TopK, NaNIsLargestAndU64IsUnsigned) {
  EXPECT_EQ(TopK(Tensor(Dtype::kF32, {3}, {1, kNaN, kInfinity}), 3, 1).second,
            (std::vector<double>{1, 2, 0}));
  EXPECT_EQ(TopK(Tensor(Dtype::kU64, {2}, {5, -1}), 1, 1).second, (std::vector<double>{1}));
  EXPECT_EQ(TopK(Tensor(Dtype::kI64, {2}, {5, -1}), 1, 1).second, (std::vector<double>{0}));
}

TEST(TopK, AlongAnInnerAxis) {
  const auto [values, indices] = TopK(Tensor(Dtype::kI32, {3, 2}, {1, 9, 5, 2, 3, 4}), 2, 1, 0);
  EXPECT_EQ(values, (std::vector<double>{5, 9, 3, 4}));
  EXPECT_EQ(indices, (std::vector<double>{1, 0, 2, 2}));
}

TEST(TopK, KMayNotPassTheAxis) {
  OneNode node({ReferenceTensor(Dtype::kF32, {2})});
  node.inputs.push_back(IntsConstant(node.graph, {3}));
  FakeImport import = node.Import("TopK", 2);
  EXPECT_EQ(import.Run().error().message, "k is 3, but axis 0 is only known to have 2 elements");
}

Result<std::vector<double>> Scatter(const std::string& op, std::vector<ReferenceTensor> tensors,
                                    const std::string& reduction) {
  OneNode node(std::move(tensors));
  FakeImport import = node.Import(op);
  FUSEC_ASSIGN(const std::vector<ReferenceTensor> answers,
               node.Answers(import.With("reduction", reduction)));
  return Values(answers[0]);
}

TEST(ScatterElements, Reductions) {
  const auto scatter = [](const std::string& reduction) {
    return *Scatter("ScatterElements",
                    {Tensor(Dtype::kF32, {4}, {1, 2, 3, 4}), Tensor(Dtype::kI64, {3}, {1, -1, 1}),
                     Tensor(Dtype::kF32, {3}, {10, kInfinity, -5})},
                    reduction);
  };
  EXPECT_EQ(scatter("none"), (std::vector<double>{1, -5, 3, kInfinity}));
  EXPECT_EQ(scatter("add"), (std::vector<double>{1, 7, 3, kInfinity}));
  EXPECT_EQ(scatter("mul"), (std::vector<double>{1, -100, 3, kInfinity}));
  EXPECT_EQ(scatter("max"), (std::vector<double>{1, 10, 3, kInfinity}));
  EXPECT_EQ(scatter("min"), (std::vector<double>{1, -5, 3, 4}));
}

TEST(ScatterElements, NaNWinsIntegersWrapAndBadIndicesFail) {
  const ReferenceTensor zero = Tensor(Dtype::kI64, {2}, {0, 0});
  const auto nan =
      *Scatter("ScatterElements",
               {Tensor(Dtype::kF32, {1}, {1}), zero, Tensor(Dtype::kF32, {2}, {kNaN, 2})}, "max");
  EXPECT_TRUE(std::isnan(nan[0]));
  EXPECT_EQ(
      *Scatter("ScatterElements",
               {Tensor(Dtype::kI8, {1}, {127}), zero, Tensor(Dtype::kI8, {2}, {1, 1})}, "add"),
      (std::vector<double>{-127}));
  EXPECT_FALSE(Scatter(
      "ScatterElements",
      {Tensor(Dtype::kF32, {1}, {1}), Tensor(Dtype::kI64, {1}, {1}), Tensor(Dtype::kF32, {1}, {2})},
      "none"));
}

TEST(ScatterND, BlocksAndPoints) {
  const ReferenceTensor data = Iota(Dtype::kI32, {3, 2});
  EXPECT_EQ(*Scatter("ScatterND",
                     {data, Tensor(Dtype::kI64, {2, 1}, {-1, 0}),
                      Tensor(Dtype::kI32, {2, 2}, {9, 8, 7, 6})},
                     "none"),
            (std::vector<double>{7, 6, 2, 3, 9, 8}));
  EXPECT_EQ(*Scatter("ScatterND",
                     {data, Tensor(Dtype::kI64, {2, 2}, {1, 1, 1, 1}),
                      Tensor(Dtype::kI32, {2}, {10, 10})},
                     "add"),
            (std::vector<double>{0, 1, 2, 23, 4, 5}));
  EXPECT_EQ(
      *Scatter("ScatterND",
               {data, ReferenceTensor(Dtype::kI64, {0, 2}), ReferenceTensor(Dtype::kI32, {0})},
               "none"),
      Values(data));
  EXPECT_EQ(Scatter("ScatterND",
                    {data, Tensor(Dtype::kI64, {1, 1}, {0}), Tensor(Dtype::kI32, {1}, {0})}, "none")
                .error()
                .message,
            "the updates are i32[1], expected [1, 2]");
}

}  // namespace
}  // namespace fusec
