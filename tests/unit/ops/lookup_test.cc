#include "tests/unit/ops/view_harness.h"

namespace fusec {
namespace {

TEST(Lookup, ValueOfTheKeyOrAbsent) {
  Graph graph;
  Value* ids = graph.AddInput("ids", {Dtype::kI64, {2, 3}});
  Value* found = Builder(graph).Make(
      OpKind::kLookup, {IntsConstant(graph, {-7, 0, 9}), ids, IntsConstant(graph, {5, 6, 7})},
      {{"absent", int64_t{-1}}});
  graph.outputs = {found};
  EXPECT_EQ(found->type.ToString(), "i64[2, 3]");
  const auto answer = Interpret(graph, {Tensor(Dtype::kI64, {2, 3}, {9, -7, 1, 0, 10, -8})});
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(Values((*answer)[0]), (std::vector<double>{7, 5, -1, 6, -1, -1}));
}

TEST(Lookup, WhatInferRefuses) {
  Graph graph;
  Value* keys = IntsConstant(graph, {1, 2});
  const auto refused = [&](Value* id, Value* values) {
    return Builder(graph).Add(OpKind::kLookup, {keys, id, values}, {{"absent", int64_t{0}}}).error().message;
  };
  EXPECT_NE(refused(graph.AddInput("a", {Dtype::kI32, {1}}), keys).find("the same integers"),
            std::string::npos);
  EXPECT_NE(refused(graph.AddInput("b", {Dtype::kI64, {1}}), IntsConstant(graph, {1})).find("expected equally many"),
            std::string::npos);
}

}  // namespace
}  // namespace fusec
