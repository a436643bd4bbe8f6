#include "tests/unit/ops/view_harness.h"

namespace fusec {
namespace {

struct Product {
  std::vector<double> values;
  std::string error;
};

// Rows [1, 10] and [2, 20], two of each slot's, times a bank of the matrices [[1], [2]] and
// [[3], [4]], as [2, 2, 1] or, transposed, [2, 1, 2].
Product Multiply(const IntList& slots, int64_t transposed = 0, IntList bank = {2, 2, 1},
                 IntList rows = {1, 2, 2}) {
  Graph graph;
  Value* x = graph.AddInput("x", {Dtype::kF32, Shape(rows.begin(), rows.end())});
  Value* matrices = graph.AddInput("bank", {Dtype::kF32, Shape(bank.begin(), bank.end())});
  const auto node = Builder(graph).Add(OpKind::kSlotMatMul, {x, matrices, IntsConstant(graph, slots)},
                                       {{"transpose_b", transposed}});
  if (!node) return {{}, node.error().message};
  graph.outputs = {(*node)->result()};
  ReferenceTensor data(Dtype::kF32, rows), weights(Dtype::kF32, bank);
  data.reals = {1, 10, 2, 20};
  weights.reals = {1, 2, 3, 4};
  const auto answer = Interpret(graph, {data, weights});
  return {answer ? Values((*answer)[0]) : std::vector<double>{}, answer ? "" : answer.error().message};
}

TEST(SlotMatMul, MultipliesByTheMatrixOfTheSlot) {
  EXPECT_EQ(Multiply({1}).values, (std::vector<double>{43, 86}));
  EXPECT_EQ(Multiply({1}, 1, {2, 1, 2}).values, (std::vector<double>{43, 86}));
  EXPECT_EQ(Multiply({0, -1}, 0, {2, 2, 1}, {2, 2}).values, (std::vector<double>{21, 0}));
}

TEST(SlotMatMul, RefusesWhatIsNoSlot) {
  EXPECT_NE(Multiply({2}).error.find("slot 2 at [0] of \""), std::string::npos);
  EXPECT_NE(Multiply({-2}).error.find("is outside -1..1"), std::string::npos);
}

TEST(SlotMatMul, WhatInferRefuses) {
  EXPECT_EQ(Multiply({0}, 0, {4, 1, 1}).error, "rows of f32[1, 2, 2] do not fit matrices of f32[4, 1, 1]");
  EXPECT_EQ(Multiply({0, 1}).error,
            "the slots are i64[2], expected integers for leading axes of f32[1, 2, 2]");
  EXPECT_EQ(Multiply({0}, 0, {2, 2}).error,
            "the rows are f32[1, 2, 2] and the bank is f32[2, 2], expected floats of one type and a bank of rank 3");
}

}  // namespace
}  // namespace fusec
