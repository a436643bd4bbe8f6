#include "passes/share_long_sums.h"

#include <gtest/gtest.h>

#include "compiler/driver/build/pipeline.h"
#include "compiler/reference/interpreter.h"

namespace fusec {
namespace {

constexpr int64_t kTerms = 32768, kColumns = 6, kRows = 3;

TensorData Numbers(std::vector<int64_t> dims, int64_t step) {
  TensorData data(Dtype::kF32, std::move(dims));
  for (int64_t i = 0; i < data.element_count(); ++i)
    data.SetDouble(i, static_cast<double>(i * step % 31) - 15);
  return data;
}

// relu(x * x) x weights, of small integers, whose sums are the same in any order.
std::unique_ptr<Graph> LongSum(bool transposed, int64_t columns = kColumns) {
  auto graph = std::make_unique<Graph>();
  graph->symbols = {{"batch", 1, 64}};
  Value* x = graph->AddInput("x", {Dtype::kF32, {Expr::Symbol("batch"), kTerms}});
  Builder builder(*graph);
  Value* weights = builder.Constant(Numbers(transposed ? std::vector<int64_t>{columns, kTerms}
                                                       : std::vector<int64_t>{kTerms, columns},
                                            7),
                                    "weights");
  Value* product =
      builder.Make(OpKind::kMatMul, {builder.Make(OpKind::kMul, {x, x}), weights},
                   {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{transposed}}}, "sums");
  graph->outputs = {builder.Make(OpKind::kRelu, {product}, {}, "y")};
  return graph;
}

TEST(ShareLongSums, KeepsAnswers) {
  for (const bool transposed : {false, true}) {
    const auto before = LongSum(transposed), after = before->Clone();
    const std::vector<ReferenceTensor> inputs = {
        ReferenceTensor::FromData(Numbers({kRows, kTerms}, 3))};
    PassManager passes;
    ASSERT_TRUE(passes.Run(*after, {"share-long-sums", "fold-constants"}));
    ASSERT_NE(Print(*after), Print(*before));
    const auto expected = Interpret(*before, inputs), found = Interpret(*after, inputs);
    ASSERT_TRUE(expected && found);
    EXPECT_EQ((*found)[0].ToData().Hash(), (*expected)[0].ToData().Hash());
    ASSERT_TRUE(passes.Run(*after, FusionPasses(TargetKind::kGpu)));
    const auto fused = Interpret(*after, inputs);
    ASSERT_TRUE(fused);
    EXPECT_EQ((*fused)[0].ToData().Hash(), (*expected)[0].ToData().Hash());
  }
}

TEST(ShareLongSums, LeavesToTheLibraryWhatFillsItsTensorCores) {
  PassManager passes;
  passes.options.matmul_precision = "high";
  for (const int64_t columns : {6, 32, 33}) {
    const auto graph = LongSum(true, columns);
    const std::string before = Print(*graph);
    ASSERT_TRUE(passes.Run(*graph, {"share-long-sums"}));
    EXPECT_EQ(Print(*graph) == before, columns == 33) << columns;
  }
}

}  // namespace
}  // namespace fusec
