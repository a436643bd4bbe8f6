#include "compiler/region/traffic.h"

#include <gtest/gtest.h>

namespace fusec {
namespace {

std::unique_ptr<Graph> Read(const std::string& text) {
  auto graph = Parse(text);
  EXPECT_TRUE(graph && Verify(**graph)) << text;
  return *std::move(graph);
}

TEST(Traffic, LookUpsReadNoMoreThanTheirTable) {
  const auto graph = Read(R"(graph @g(%table: f32[10, 4], %ids: i64[n]) symbols(n in 0..100) {
    %rows = gather(%table, %ids) {axis = 0} : f32[n, 4]
    %sum = add(%rows, %rows) : f32[n, 4]
    return %sum
  })");
  const Ranges ranges = graph->SymbolRanges();
  const Expr table = BytesRead(*graph->nodes[0], 0, ranges);
  EXPECT_EQ(table.Evaluate({{"n", 3}}).value(), 3 * 16);
  EXPECT_EQ(table.Evaluate({{"n", 64}}).value(), 10 * 16);
  EXPECT_EQ(BytesRead(*graph->nodes[0], 1, ranges).ToString(), "n*8");
  EXPECT_EQ(BytesRead(*graph->nodes[1], 0, ranges).ToString(), "n*16");
}

TEST(Traffic, RegionsAddUpTheLookUpsOfATable) {
  const auto graph = Read(R"(
      graph @g(%table: f32[10, 4], %small: f32[1000, 4], %a: i64[n], %b: i64[n])
          symbols(n in 0..100) {
    %sum = region(%table, %a, %b, %small) {class = "pointwise"} : f32[n, 4] {
      graph @body(%table: f32[10, 4], %a: i64[n], %b: i64[n], %small: f32[1000, 4]) {
        %left = gather(%table, %a) {axis = 0} : f32[n, 4]
        %right = gather(%table, %b) {axis = 0} : f32[n, 4]
        %both = add(%left, %right) : f32[n, 4]
        %other = gather(%small, %b) {axis = 0} : f32[n, 4]
        %sum = add(%both, %other) : f32[n, 4]
        return %sum
      }
    }
    return %sum
  })");
  const Ranges ranges = graph->SymbolRanges();
  const Node& region = *graph->nodes[0];
  EXPECT_EQ(RegionBytesRead(region, 0, ranges).ToString(), "min(n*32, 160)");
  EXPECT_EQ(RegionBytesRead(region, 1, ranges).ToString(), "n*8");
  EXPECT_EQ(RegionBytesRead(region, 3, ranges).ToString(), "n*16");  // the table is never smaller
}

}  // namespace
}  // namespace fusec
