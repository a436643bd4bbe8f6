#include <gtest/gtest.h>

#include "compiler/plan/plan_program.h"

namespace fusec {
namespace {

// act(x w^T + added), with `type` that of `added`.
std::unique_ptr<Graph> Product(const std::string& type) {
  auto graph = Parse(
      "graph @g(%x \"x\": f32[8, 4], %w \"w\": f32[8, 4], %b \"b\": f32[8], %added \"added\": " +
      type +
      ") {\n"
      "  %r = region(%x, %w, %b, %added) {class = \"matmul\"} : f32[8, 8] {\n"
      "    graph @matmul_add_add_relu(%x: f32[8, 4], %w: f32[8, 4], %b: f32[8], %added: " +
      type +
      ") {\n"
      "      %m = matmul(%x, %w) {transpose_a = 0, transpose_b = 1} : f32[8, 8]\n"
      "      %s = add(%m, %b) : f32[8, 8]\n"
      "      %y = add(%added, %s) : f32[8, 8]\n"
      "      %r = relu(%y) : f32[8, 8]\n"
      "      return %r\n    }\n  }\n"
      "  return %r \"r\"\n}\n");
  EXPECT_TRUE(graph) << graph.error().message;
  return *std::move(graph);
}

TEST(PlanLibraryMatMul, AddsATensorOfItsShapeOnGpus) {
  const auto graph = Product("f32[8, 8]");
  const auto plan = PlanLibraryMatMul(*graph->nodes[0], TargetKind::kGpu);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->bias, graph->inputs[2].get());
  EXPECT_EQ(plan->addend, graph->inputs[3].get());
  EXPECT_EQ(plan->activation, "relu");
  EXPECT_EQ(*plan->bytes_read.AsConstant(), 4 * (8 * 4 + 8 * 4 + 8 + 8 * 8));
  EXPECT_FALSE(PlanLibraryMatMul(*graph->nodes[0], TargetKind::kCpu));
}

TEST(PlanLibraryMatMul, AColumnIsNoBias) {
  const auto graph = Product("f32[8, 1]");
  EXPECT_FALSE(PlanLibraryMatMul(*graph->nodes[0], TargetKind::kGpu));
}

}  // namespace
}  // namespace fusec
