#include "compiler/emit/equal_kernels.h"

#include <gtest/gtest.h>

#include "compiler/emit/emit_kernel.h"
#include "compiler/plan/plan_program.h"
#include "compiler/support/gpu.h"

namespace fusec {
namespace {

struct Planned {
  std::unique_ptr<Graph> graph;  // which the program points to
  ProgramPlan program;
};

// A program of two regions: e^x of the first input times the second input, and `other`.
Planned Plan(const std::string& other, TargetKind target = TargetKind::kGpu) {
  auto graph = Parse(
      "graph @g(%x: f32[b, 8], %scale: f32[8], %hidden: f32[b, 8], %weight: f32[8], "
      "%wide: f32[b, 16], %wide_weight: f32[16], %halves: f16[b, 8], %half_weight: f16[8]) "
      "symbols(b in 1..64) {\n"
      "  %y = region(%x, %scale) {class = \"pointwise\"} : f32[b, 8] {\n"
      "    graph @first(%x: f32[b, 8], %scale: f32[8]) {\n"
      "      %exp_1 = exp(%x) : f32[b, 8] @ \"/layer.1/Exp\" \"Exp\"\n"
      "      %y = mul(%exp_1, %scale) : f32[b, 8]\n"
      "      return %y\n    }\n  }\n" +
      other + "  return %y, %z\n}\n");
  EXPECT_TRUE(graph) << (graph ? "" : graph.error().message);
  std::vector<IndexSite> sites;
  auto plan = PlanProgram(**graph, {target, "highest", &GpuFor("sm_90")}, sites);
  EXPECT_TRUE(plan) << (plan ? "" : plan.error().message);
  ShareEqualKernels(*plan);
  return {*std::move(graph), *std::move(plan)};
}

// A region %z of two inputs, in which %e is `op` of the first, %h.
std::string Region(const std::string& inputs, const std::string& op, const std::string& product,
                   const std::string& row = "f32[8]") {
  std::string rows = row;
  rows.insert(rows.find('[') + 1, "b, ");
  return "  %z = region(" + inputs + ") {class = \"pointwise\"} : " + rows +
         " {\n    graph @second(%h: " + rows + ", %w: " + row + ") {\n      %e = " + op +
         "(%h) : " + rows + " @ \"/layer.2/Exp\" \"Exp\"\n      %z = " + product + " : " + rows +
         "\n      return %z\n    }\n  }\n";
}

TEST(EqualKernels, ThoseThatDifferInNamesAloneShareTheFirstOnesFunction) {
  for (const TargetKind target : {TargetKind::kGpu, TargetKind::kCpu}) {
    const auto [graph, plan] = Plan(Region("%hidden, %weight", "exp", "mul(%e, %w)"), target);
    ASSERT_EQ(plan.steps.size(), 2u);
    const KernelPlan &first = plan.steps[0].kernel, &second = plan.steps[1].kernel;
    EXPECT_EQ(first.function(), first.name);
    EXPECT_EQ(first.also_as, std::vector<std::string>{second.name});
    EXPECT_EQ(second.function(), first.name);
    EXPECT_EQ(second.parameters[0].name, "hidden") << "its own arguments";
    EXPECT_EQ(FunctionsOf(plan), std::vector<const KernelPlan*>{&first});
    EXPECT_NE(EmitKernelFile(first, {}).find("// also as : " + second.name + "\n"),
              std::string::npos);
  }
}

TEST(EqualKernels, WhatElseDiffersIsCompiled) {
  const std::string variants[] = {
      Region("%hidden, %weight", "log", "mul(%e, %w)"),
      Region("%hidden, %weight", "exp", "div(%e, %w)"),
      Region("%hidden, %weight", "exp", "mul(%e, %e)"),
      Region("%hidden, %weight", "exp", "mul(%h, %w)"),
      Region("%hidden, %weight", "exp", "mul(%w, %e)"),
      Region("%wide, %wide_weight", "exp", "mul(%e, %w)", "f32[16]"),
      Region("%halves, %half_weight", "exp", "mul(%e, %w)", "f16[8]"),
  };
  for (const std::string& variant : variants) {
    const auto [graph, plan] = Plan(variant);
    EXPECT_EQ(FunctionsOf(plan).size(), 2u) << variant;
    EXPECT_TRUE(plan.steps[0].kernel.also_as.empty()) << variant;
    EXPECT_TRUE(plan.steps[1].kernel.same_as.empty()) << variant;
  }
}

}  // namespace
}  // namespace fusec
