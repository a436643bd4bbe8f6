#include <cmath>

#include "tests/unit/ops/view_harness.h"

namespace fusec {
namespace {

struct Bags {
  std::vector<double> values;
  std::string error;
};

// Rows 1, 2, 4, 8 (and NaN for max), pooled between bounds; no `ends`: up to the next start.
Bags Pool(const std::string& mode, const IntList& starts, const IntList& ends,
          int64_t zero_if_empty = 0, IntList rows = {4, 1}) {
  Graph graph;
  Value* x = graph.AddInput("x", {Dtype::kF32, Shape(rows.begin(), rows.end())});
  ValueList operands = {x, IntsConstant(graph, starts)};
  if (!ends.empty()) operands.push_back(IntsConstant(graph, ends, Dtype::kI64));
  const auto node = Builder(graph).Add(OpKind::kSegmentReduce, operands,
                                       {{"mode", mode}, {"zero_if_empty", zero_if_empty}});
  if (!node) return {{}, node.error().message};
  graph.outputs = {(*node)->result()};
  ReferenceTensor data(Dtype::kF32, rows);
  for (size_t i = 0; i < data.reals.size(); ++i) data.reals[i] = std::ldexp(1.0, static_cast<int>(i));
  const auto answer = Interpret(graph, {data});
  return {answer ? Values((*answer)[0]) : std::vector<double>{}, answer ? "" : answer.error().message};
}

TEST(SegmentReduce, BagsEndWhereTheNextOneStarts) {
  EXPECT_EQ(Pool("sum", {0, 1, 1, 3}, {}).values, (std::vector<double>{1, 0, 6, 8}));
  EXPECT_EQ(Pool("mean", {0, 1, 1, 3}, {}).values, (std::vector<double>{1, 0, 3, 8}));
  EXPECT_EQ(Pool("max", {0, 1, 1, 3}, {}).values, (std::vector<double>{1, -INFINITY, 4, 8}));
  EXPECT_EQ(Pool("max", {0, 1, 1, 3}, {}, 1).values, (std::vector<double>{1, 0, 4, 8}));
  EXPECT_EQ(Pool("sum", {4}, {}).values, (std::vector<double>{0}));
  EXPECT_EQ(Pool("sum", {0, 0}, {}, 0, {0, 3}).values, (std::vector<double>(6, 0)));
  EXPECT_EQ(Pool("sum", {0, 2}, {}, 0, {4}).values, (std::vector<double>{3, 12}));
}

TEST(SegmentReduce, BoundsAreThoseOfASlice) {
  EXPECT_EQ(Pool("sum", {0, -1, 3, -9, 7}, {9, 4, 1, -2, 9}).values,
            (std::vector<double>{15, 8, 0, 3, 0}));
  // Descending bounds are not a bag (max gives -infinity), and equal bounds are an empty bag (0).
  EXPECT_EQ(Pool("max", {3, 2}, {1, 2}, 1).values, (std::vector<double>{-INFINITY, 0}));
}

TEST(SegmentReduce, WhatInferRefuses) {
  EXPECT_EQ(Pool("sum", {0, 1}, {1}).error, "bags start at i64[2] but end at i64[1]");
  EXPECT_EQ(Pool("min", {0}, {1}).error, "mode is \"min\", expected one of sum|mean|max");
}

}  // namespace
}  // namespace fusec
