#include "passes/not_fused.h"

#include <gtest/gtest.h>

#include "compiler/driver/build/pipeline.h"
#include "compiler/plan/program_plan.h"

namespace fusec {
namespace {

std::vector<NotFused> Edges(const std::string& text, TargetKind target) {
  auto graph = Parse(text);
  EXPECT_TRUE(graph) << (graph ? "" : graph.error().message);
  PassManager manager;
  EXPECT_TRUE(manager.Run(**graph, FusionPasses(target)));
  return NotFusedEdges(**graph, manager.TakeReport());
}

bool Says(const NotFused& edge, const std::string& part) {
  return edge.reason.find(part) != std::string::npos && !edge.needed.empty();
}

TEST(NotFused, APassSaysWhyAProductEnds) {
  const auto edges = Edges(
      "graph @g(%x \"x\": f32[b, 8], %w \"w\": f32[8, 4]) symbols(b in 1..64) {\n"
      "  %m = matmul(%x, %w) {transpose_a = 0, transpose_b = 0} : f32[b, 4] @ \"/fc\" \"MatMul\"\n"
      "  %s = sigmoid(%m) : f32[b, 4]\n"
      "  return %s \"y\"\n}\n",
      TargetKind::kCpu);
  ASSERT_EQ(edges.size(), 1u);
  EXPECT_EQ(edges[0].producer, "/fc");
  EXPECT_EQ(edges[0].consumer, "s");
  EXPECT_EQ(edges[0].tensor, "m");
  EXPECT_EQ(edges[0].producer_region, 0u);
  EXPECT_EQ(edges[0].consumer_region, 1u);
  EXPECT_TRUE(Says(edges[0], "fuse-matmul-epilogue: sigmoid is not an epilogue")) << edges[0].reason;
}

TEST(NotFused, APassSaysWhyAReductionEnds) {
  const auto edges = Edges(
      "graph @g(%x \"x\": f32[6, 8]) {\n"
      "  %s = reduce_sum(%x) {axes = [1], keepdims = 0} : f32[6]\n"
      "  %t = reduce_max(%s) {axes = [0], keepdims = 0} : f32[]\n"
      "  return %t \"y\"\n}\n",
      TargetKind::kGpu);
  ASSERT_EQ(edges.size(), 1u);
  EXPECT_TRUE(Says(edges[0], "fuse-row-reduction: reduce_max reduces other axes")) << edges[0].reason;
}

TEST(NotFused, APassSaysWhyABlockEnds) {
  const auto edges = Edges(
      "graph @g(%q \"q\": f32[b, 4, 8], %k \"k\": f32[b, 8, 4], %w \"w\": f32[4, 4096])\n"
      "    symbols(b in 1..64) {\n"
      "  %m = matmul(%q, %k) {transpose_a = 0, transpose_b = 0} : f32[b, 4, 4]\n"
      "  %e = sigmoid(%m) : f32[b, 4, 4]\n"
      "  %n = matmul(%e, %w) {transpose_a = 0, transpose_b = 0} : f32[b, 4, 4096]\n"
      "  return %n \"y\"\n}\n",
      TargetKind::kGpu);
  ASSERT_EQ(edges.size(), 1u);
  EXPECT_TRUE(Says(edges[0], "fuse-block-program: every block would read a matrix of 16384"))
      << edges[0].reason;
  EXPECT_TRUE(Says(edges[0], "fuse-matmul-epilogue: a matrix product reads"));
}

TEST(NotFused, NeighboursThatNoPassLookedAtAreToldApartByClass) {
  const auto edges = Edges(
      "graph @g(%x \"x\": f32[6]) {\n"
      "  %e = exp(%x) : f32[6]\n"
      "  %c = cumsum(%e) {axis = 0, exclusive = 0, reverse = 0} : f32[6]\n"
      "  return %c \"y\"\n}\n",
      TargetKind::kGpu);
  ASSERT_EQ(edges.size(), 1u);
  EXPECT_TRUE(Says(edges[0], "scan, sort or scatter")) << edges[0].reason;
}

TEST(NotFused, NothingCrossesMemoryInOneRegion) {
  EXPECT_TRUE(Edges("graph @g(%x \"x\": f32[6]) {\n  %e = exp(%x) : f32[6]\n"
                    "  %n = neg(%e) : f32[6]\n  return %n \"y\"\n}\n",
                    TargetKind::kGpu)
                  .empty());
}

}  // namespace
}  // namespace fusec
