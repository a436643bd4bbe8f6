#include "passes/table_seam.h"

#include <gtest/gtest.h>

#include "compiler/ir/graph.h"
#include "passes/shard_graph.h"

namespace fusec {
namespace {

using Names = std::vector<std::string>;

std::unique_ptr<Graph> ParseOrFail(const std::string& body) {
  auto graph = Parse(body);
  EXPECT_TRUE(graph) << graph.error().message;
  return graph ? std::move(*graph) : std::make_unique<Graph>();
}

constexpr const char* kHead = R"(graph @g(%ids: i64[batch, 20],
         %item: i64[batch], %weights: f32[batch, 20, 1], %x: f32[batch, 4]) symbols(batch in 1..4096) {
  %table = constant() payload "0123456789abcdef0123456789abcdef" : f32[1000, 8]
)";

TableSeam SeamOf(const std::string& nodes, TableCut cut = TableCut::kNone) {
  const auto graph = ParseOrFail(kHead + nodes + "}\n");
  return SeamFinder(*graph, {"table"}, {{"batch", 100}}).Find({"table"}, cut);
}

TEST(TableSeam, RowsOfOneIdCrossAsTheyAre) {
  const TableSeam seam = SeamOf(R"(
  %rows = gather(%table, %item) {axis = 0} : f32[batch, 8]
  %y = sigmoid(%rows) : f32[batch, 8]
  return %y
)");
  EXPECT_EQ(seam.stays, "");
  EXPECT_EQ(seam.crossing, Names{"rows"});
  EXPECT_EQ(seam.look_ups.ToString(), "batch");
}

TEST(TableSeam, SumsOfBagsCrossAndWhatMakesThemLargerDoesNot) {
  const TableSeam seam = SeamOf(R"(
  %rows = gather(%table, %ids) {axis = 0} : f32[batch, 20, 8]
  %weighted = mul(%rows, %weights) : f32[batch, 20, 8]
  %sum = reduce_sum(%weighted) {axes = [1], keepdims = 1} : f32[batch, 1, 8]
  %wide = expand(%sum) {shape = dims[batch, 20, 8]} : f32[batch, 20, 8]
  return %wide
)");
  EXPECT_EQ(seam.crossing, Names{"sum"});
  EXPECT_EQ(seam.look_ups.ToString(), "batch*20");
  EXPECT_EQ(seam.bytes.ToString(), "batch*32");
}

TEST(TableSeam, WhatOtherTablesAndLayersJoinStaysOutside) {
  const TableSeam seam = SeamOf(R"(
  %w = constant() [1, 2, 3, 4] : f32[4]
  %rows = gather(%table, %item) {axis = 0} : f32[batch, 8]
  %column = reshape(%w) {shape = dims[4, 1]} : f32[4, 1]
  %layer = matmul(%x, %column) {transpose_a = 0, transpose_b = 0} : f32[batch, 1]
  %gated = mul(%rows, %layer) : f32[batch, 8]
  %score = reduce_sum(%gated) {axes = [1], keepdims = 0} : f32[batch]
  return %score
)");
  EXPECT_EQ(seam.crossing, Names{"rows"});
}

TEST(TableSeam, IdsOfAnotherLookUpKeepTheTable) {
  const TableSeam seam = SeamOf(R"(
  %w = constant() [1, 2] : f32[2, 1]
  %product = matmul(%w, %w) {transpose_a = 0, transpose_b = 1} : f32[2, 2]
  %as_ids = cast(%product) {to = i64} : i64[2, 2]
  %rows = gather(%table, %as_ids) {axis = 0} : f32[2, 2, 8]
  return %rows
)");
  EXPECT_EQ(seam.stays, "its ids are not computed from the inputs alone");
}

TEST(TableSeam, IdsThatAMaskChoosesArePlacedBesideTheTable) {
  const TableSeam seam = SeamOf(R"(
  %flags = cast(%item) {to = i64} : i64[batch]
  %places = cumsum(%flags) {axis = 0, exclusive = 0, reverse = 0} : i64[batch]
  %rows = gather(%table, %places) {axis = 0} : f32[batch, 8]
  return %rows
)");
  EXPECT_EQ(seam.stays, "");
  EXPECT_EQ(seam.crossing, Names{"rows"});
}

TEST(TableSeam, SumsOfFloatsThatIdsAreMadeOfStayWithTheRest) {
  const TableSeam seam = SeamOf(R"(
  %sums = cumsum(%x) {axis = 0, exclusive = 0, reverse = 0} : f32[batch, 4]
  %as_ids = cast(%sums) {to = i64} : i64[batch, 4]
  %rows = gather(%table, %as_ids) {axis = 0} : f32[batch, 4, 8]
  return %rows
)");
  EXPECT_EQ(seam.stays, "its ids are not computed from the inputs alone");
}

TEST(TableSeam, PartsLeaveRowsOfOthersOutBeforeTheyAreSummed) {
  const TableSeam seam = SeamOf(R"(
  %rows = gather(%table, %ids) {axis = 0} : f32[batch, 20, 8]
  %curved = tanh(%rows) : f32[batch, 20, 8]
  %sum = reduce_sum(%curved) {axes = [1], keepdims = 0} : f32[batch, 8]
  return %sum
)",
                                TableCut::kRows);
  EXPECT_EQ(seam.crossing, Names{"sum"});
  ASSERT_EQ(seam.partial.size(), 1u);
  EXPECT_EQ(seam.partial[0].rows, "curved");
  EXPECT_EQ(seam.partial[0].ids, "ids");
}

TEST(TableSeam, PartsCannotTakeWhatIsNotLinear) {
  const std::string nodes = R"(
  %rows = gather(%table, %ids) {axis = 0} : f32[batch, 20, 8]
  %most = reduce_max(%rows) {axes = [1], keepdims = 0} : f32[batch, 8]
  return %most
)";
  EXPECT_EQ(SeamOf(nodes).crossing, Names{"most"});
  EXPECT_EQ(SeamOf(nodes, TableCut::kRows).crossing, Names{"rows"});
}

TEST(TableSeam, EachLookUpHasItsOwnSeam) {
  const TableSeam seam = SeamOf(R"(
  %rows = gather(%table, %ids) {axis = 0} : f32[batch, 20, 8]
  %sum = reduce_sum(%rows) {axes = [1], keepdims = 0} : f32[batch, 8]
  %one = gather(%table, %item) {axis = 0} : f32[batch, 8]
  %all = concat(%sum, %one, %x) {axis = 1} : f32[batch, 20]
  return %all
)");
  EXPECT_EQ(seam.crossing, (Names{"sum", "one"}));
}

TEST(TypesOnWire, AreWhatIsSent) {
  const TensorType rows{Dtype::kF32, {Expr::Symbol("batch"), 8}};
  EXPECT_EQ(TypesOnWire(rows, Wire::kExact)[0], rows);
  EXPECT_EQ(TypesOnWire(rows, Wire::kF16)[0].ToString(), "f16[batch, 8]");
  ASSERT_EQ(TypesOnWire(rows, Wire::kInt8).size(), 2u);
  EXPECT_EQ(TypesOnWire(rows, Wire::kInt8)[1].ToString(), "f32[batch, 1]");
  const TensorType codes{Dtype::kU8, {Expr::Symbol("batch"), 8}};
  EXPECT_EQ(TypesOnWire(codes, Wire::kInt8)[0], codes);
}

// Ops that mix columns, or have different numbers for each column, stay outside.
TEST(TableSeam, OfATableThatIsCutByColumnsAllBeforeTheSeamHasThem) {
  const std::string nodes = R"(
  %rows = gather(%table, %ids) {axis = 0} : f32[batch, 20, 8]
  %weighted = mul(%rows, %weights) : f32[batch, 20, 8]
  %sum = reduce_sum(%weighted) {axes = [1], keepdims = 0} : f32[batch, 8]
  %gate = sigmoid(%sum) : f32[batch, 8]
  %scale = constant() [1, 2, 3, 4, 5, 6, 7, 8] : f32[8]
  %scaled = mul(%gate, %scale) : f32[batch, 8]
  %norm = reduce_sum(%scaled) {axes = [1], keepdims = 0} : f32[batch]
  return %norm
)";
  EXPECT_EQ(SeamOf(nodes).crossing, Names{"norm"});
  const TableSeam seam = SeamOf(nodes, TableCut::kColumns);
  EXPECT_EQ(seam.crossing, Names{"sum"});
  EXPECT_EQ(seam.by_columns, (Names{"rows", "weighted", "sum"}));
  EXPECT_TRUE(seam.partial.empty());
}

}  // namespace
}  // namespace fusec
