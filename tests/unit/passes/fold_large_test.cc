#include "passes/fold_large.h"

#include <gtest/gtest.h>

#include "compiler/reference/interpreter.h"

namespace fusec {
namespace {

TensorData Numbers(Dtype dtype, std::vector<int64_t> dims) {
  TensorData data(dtype, std::move(dims));
  for (int64_t i = 0; i < data.element_count(); ++i)
    data.SetDouble(i, static_cast<double>(i * 7 % 11) - 3);
  return data;
}

Result<std::optional<TensorData>> FoldViewOf(const Node& node) { return FoldView(node); }

// `fold` of one node against the interpreter's answer.
void Check(OpKind kind, ArrayRef<TensorData> operands, Attributes attributes = {},
           Result<std::optional<TensorData>> (*fold)(const Node&) = FoldLarge) {
  Graph graph;
  Builder builder(graph);
  ValueList values;
  for (const TensorData& data : operands) values.push_back(builder.Constant(data));
  auto node = builder.Add(kind, values, std::move(attributes));
  ASSERT_TRUE(node) << node.error().message;
  graph.outputs.push_back((*node)->result());
  const auto expected = Interpret(graph, {});
  ASSERT_TRUE(expected) << expected.error().message;
  EXPECT_TRUE(FitsInterpreter(**node));
  const auto folded = fold(**node);
  ASSERT_TRUE(folded) << folded.error().message;
  ASSERT_TRUE(folded->has_value());
  EXPECT_EQ((*folded)->Hash(), (*expected)[0].ToData().Hash()) << PrintNode(**node);
}

TEST(FoldView, MovesBytes) {
  using Ints = std::vector<int64_t>;
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kF64, Dtype::kI8, Dtype::kBool}) {
    Check(OpKind::kTranspose, {Numbers(dtype, {67, 131})}, {{"perm", Ints{1, 0}}}, FoldViewOf);
    Check(OpKind::kTranspose, {Numbers(dtype, {3, 5, 70, 2})}, {{"perm", Ints{2, 0, 3, 1}}}, FoldViewOf);
    Check(OpKind::kTranspose, {Numbers(dtype, {3, 5, 70})}, {{"perm", Ints{1, 0, 2}}}, FoldViewOf);
    Check(OpKind::kTranspose, {Numbers(dtype, {3, 0})}, {{"perm", Ints{1, 0}}}, FoldViewOf);
    Check(OpKind::kReshape, {Numbers(dtype, {4, 6})}, {{"shape", Shape{8, 3}}}, FoldViewOf);
  }
  Check(OpKind::kTranspose, {Numbers(Dtype::kF32, {5})}, {{"perm", Ints{0}}}, FoldViewOf);
}

TEST(FoldLarge, ComputesElementsInPieces) {
  // More than one piece of 2^20 elements, ending inside a row.
  const TensorData table = Numbers(Dtype::kF32, {3001, 700});
  Check(OpKind::kMul, {table, Numbers(Dtype::kF32, {3001, 1})});
  Check(OpKind::kSub, {Numbers(Dtype::kF32, {700}), table});
  Check(OpKind::kAdd, {table, Numbers(Dtype::kF32, {})});
  Check(OpKind::kCast, {table}, {{"to", Dtype::kF16}});
  Check(OpKind::kCast, {Numbers(Dtype::kI64, {5, 3})}, {{"to", Dtype::kBool}});
  Check(OpKind::kRelu, {Numbers(Dtype::kF16, {0, 3})});
}

TEST(FoldLarge, MultipliesRowsInPieces) {
  Check(OpKind::kMatMul, {Numbers(Dtype::kF32, {1100, 8}), Numbers(Dtype::kF32, {8, 1200})},
        {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{0}}});
  Check(OpKind::kMatMul, {Numbers(Dtype::kF32, {3, 8}), Numbers(Dtype::kF32, {5, 8})},
        {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{1}}});
}

TEST(FoldLarge, LeavesTheRest) {
  Graph graph;
  Builder builder(graph);
  auto node = builder.Add(OpKind::kConcat, {builder.Constant(Numbers(Dtype::kF32, {2}))},
                          {{"axis", int64_t{0}}});
  ASSERT_TRUE(node) << node.error().message;
  const auto folded = FoldLarge(**node);
  ASSERT_TRUE(folded) << folded.error().message;
  EXPECT_FALSE(folded->has_value());
}

}  // namespace
}  // namespace fusec
