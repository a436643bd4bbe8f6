#include "compiler/plan/plan_program.h"

#include <gtest/gtest.h>

#include "compiler/emit/emit_kernel.h"
#include "compiler/support/gpu.h"

namespace fusec {
namespace {

// The texts of the kernels behind their device functions: of a slot_matmul that makes low-rank rows, and of a layer that adds an adapter,
// whose rows are `rows`.
std::vector<std::string> Bodies(const std::string& rows) {
  const auto graph = Parse(
      "graph @g(%x: f16[b, 1024], %w: f16[512, 1024], %a: f16[4, 16, 1024], %u: f16[4, 512, 16], "
      "%s: i32[b], %other: f16[b, 16]) symbols(b in 1..4096) {\n"
      "  %down = region(%x, %a, %s) {class = \"slot_matmul\"} : f16[b, 16] {\n"
      "    graph @down(%x: f16[b, 1024], %a: f16[4, 16, 1024], %s: i32[b]) {\n"
      "      %down = slot_matmul(%x, %a, %s) {transpose_b = 1} : f16[b, 16]\n"
      "      return %down\n    }\n  }\n"
      "  %y = region(%x, %w, " +
      rows +
      ", %u, %s) {class = \"matmul\"} : f16[b, 512] {\n"
      "    graph @layer(%x: f16[b, 1024], %w: f16[512, 1024], %d: f16[b, 16], "
      "%u: f16[4, 512, 16], %s: i32[b]) {\n"
      "      %m = matmul(%x, %w) {transpose_a = 0, transpose_b = 1} : f16[b, 512]\n"
      "      %delta = slot_matmul(%d, %u, %s) {transpose_b = 1} : f16[b, 512]\n"
      "      %y = add(%m, %delta) : f16[b, 512]\n"
      "      return %y\n    }\n  }\n"
      "  return %y, %down\n}\n");
  EXPECT_TRUE(graph) << (graph ? "" : graph.error().message);
  std::vector<IndexSite> sites;
  const auto plan = PlanProgram(**graph, {TargetKind::kGpu, "highest", &GpuFor("sm_90a")}, sites);
  EXPECT_TRUE(plan) << (plan ? "" : plan.error().message);
  std::vector<std::string> bodies;
  for (const Step& step : plan->steps) {
    EXPECT_FALSE(step.is_matmul);
    const std::string text = EmitKernelFile(step.kernel, {});
    bodies.push_back(text.substr(text.find("extern \"C\"")));
  }
  return bodies;
}

// A layer multiplies while the kernel in front of it makes the rows of its adapters, and waits for that kernel before it stores.
TEST(PlanProgram, ALayerRunsBesideTheKernelThatMakesTheRowsOfItsAdapters) {
  int layers = 0, rows = 0;
  for (const std::string& body : Bodies("%down")) {
    const size_t before_next = body.find("AwaitEarlierKernelsBeforeNext();");
    const size_t wait = body.find("AwaitEarlierKernels();"), multiply = body.find("MultiplyTile");
    if (multiply == std::string::npos) {
      EXPECT_EQ(wait == std::string::npos, before_next != std::string::npos) << body;
      rows += before_next != std::string::npos;
      continue;
    }
    ++layers;
    ASSERT_NE(wait, std::string::npos) << body;
    EXPECT_EQ(before_next, std::string::npos) << body;
    EXPECT_LT(multiply, wait) << body;
    EXPECT_LT(wait, body.find("StoreVector(")) << body;
    EXPECT_EQ(body.find("AwaitEarlierKernels();", wait + 1), std::string::npos) << body;
  }
  EXPECT_GT(layers, 1);
  EXPECT_GT(rows, 1);
}

TEST(PlanProgram, ALayerWithRowsFromElsewhereWaitsBeforeItMultiplies) {
  for (const std::string& body : Bodies("%other")) {
    EXPECT_EQ(body.find("BeforeNext"), std::string::npos) << body;
    EXPECT_LT(body.find("AwaitEarlierKernels();"), body.find("MultiplyTile")) << body;
  }
}

}  // namespace
}  // namespace fusec
