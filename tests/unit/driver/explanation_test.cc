#include "compiler/driver/explain/explanation.h"

#include <gtest/gtest.h>

#include "compiler/driver/explain/dot_graph.h"
#include "compiler/driver/explain/kernel_page.h"
#include "compiler/support/nearest_name.h"

namespace fusec {
namespace {

Explanation Sample() {
  Explanation e;
  e.model = "a \"model\".onnx";
  e.target = "sm_90a";
  e.dims = {{"b", 3}};
  auto graph = Parse(
      "graph @g(%x \"in\\\\put\": f32[b, 8], %w \"w\": f32[8]) symbols(b in 1..64) {\n"
      "  %h = region(%x, %w) {class = \"pointwise\"} : f32[b, 8] {\n"
      "    graph @exp_mul(%x: f32[b, 8], %w: f32[8]) {\n"
      "      %e = exp(%x) : f32[b, 8] @ \"/act/Exp\" \"Exp\"\n"
      "      %h = mul(%e, %w) : f32[b, 8] @ \"/act/Mul\" \"Mul\"\n"
      "      return %h\n    }\n  }\n"
      "  %s = region(%h) {class = \"row_reduction\"} : f32[b] {\n"
      "    graph @reduce_sum(%h: f32[b, 8]) {\n"
      "      %s = reduce_sum(%h) {axes = [1], keepdims = 0} : f32[b]\n"
      "      return %s\n    }\n  }\n"
      "  return %s \"sum\"\n}\n");
  EXPECT_TRUE(graph) << (graph ? "" : graph.error().message);
  e.graph = *std::move(graph);
  e.steps.resize(2);
  e.steps[0].name = "k00_exp_mul";
  e.steps[0].op_class = "pointwise";
  e.steps[1].name = "k01_reduce_sum";
  return e;
}

TEST(Dot, DrawsAClusterPerKernelAndTheTensorsBetweenThem) {
  const std::string dot = DotText(Sample());
  EXPECT_EQ(dot, DotText(Sample()));
  for (const char* part :
       {"digraph \"a \\\"model\\\".onnx\" {", "subgraph cluster_0 {\n    label=\"k00_exp_mul\\n",
        "subgraph cluster_1 {", "[label=\"exp\\ne\"]", "label=\"in\\\\put\\nf32[b, 8]\"",
        // %h: 3 x 8 floats through memory; %e stays in the kernel.
        "[label=\"f32[b, 8]\\n96 B\", penwidth=2]", "[label=\"f32[b, 8]\", color=gray"}) {
    EXPECT_NE(dot.find(part), std::string::npos) << part << " in\n" << dot;
  }
  EXPECT_EQ(DotQuoted("a\"b\\c\nd"), "\"a\\\"b\\\\c\\nd\"");
}

TEST(KernelPage, ListsTheNodesAndWhatTheyBecame) {
  const Explanation e = Sample();
  const std::string nodes = NodesText(*e.regions()[0]);
  EXPECT_NE(nodes.find("/act/Exp"), std::string::npos) << nodes;
  EXPECT_NE(nodes.find("mul"), std::string::npos) << nodes;
  EXPECT_NE(NodesText(*e.regions()[1]).find("made by the compiler"), std::string::npos);
}

TEST(NearestName, ProposesWhatTakesFewChanges) {
  const std::vector<std::string> names = {"k00_exp_mul", "k01_reduce_sum"};
  EXPECT_EQ(NearestName("k00_exp_mull", names), "k00_exp_mul");
  EXPECT_EQ(NearestName("k01", names), "k01_reduce_sum");
  EXPECT_EQ(NearestName("quite another", names), "");
  EXPECT_EQ(NearestName("", names), "");
  EXPECT_EQ(DidYouMean("k01_reduce", names), " (did you mean \"k01_reduce_sum\"?)");
}

TEST(Explanation, FindsStepsThatOtherSizesChoose) {
  Explanation e = Sample();
  e.idle_steps.emplace_back(ExplainedStep(), 0);
  e.idle_steps[0].first.name = "k00_exp_mul_wide";
  const auto found = e.FindStep("k01_reduce_sum"), idle = e.FindStep("k00_exp_mul_wide");
  ASSERT_TRUE(found && idle);
  EXPECT_EQ(found->region, e.regions()[1]);
  EXPECT_TRUE(found->runs);
  EXPECT_EQ(idle->region, e.regions()[0]);
  EXPECT_FALSE(idle->runs);
  EXPECT_FALSE(e.FindStep("k02"));
}

}  // namespace
}  // namespace fusec
