#include "passes/segments.h"

#include <gtest/gtest.h>

#include "compiler/ir/graph.h"
#include "passes/fuse_pointwise.h"

namespace fusec {
namespace {

// A chain of layers, each of which reads a view of the same input. Exporters write such views in front of all layers.
TEST(Segments, ViewsAreFusedWithReadersInLaterSegments) {
  constexpr int kLayers = 40;
  Graph graph;
  Builder builder(graph);
  Value* const shared = graph.AddInput("shared", {Dtype::kF32, {4, 6}});
  Value* sum = graph.AddInput("x", {Dtype::kF32, {2, 2, 6}});
  ValueList views;
  for (int i = 0; i < kLayers; ++i) {
    const auto view = builder.Add(OpKind::kReshape, {shared}, {{"shape", Shape{2, 2, 6}}});
    ASSERT_TRUE(view) << view.error().message;
    views.push_back((*view)->result());
  }
  for (Value* const view : views) {
    const auto layer = builder.Add(OpKind::kAdd, {sum, view});
    ASSERT_TRUE(layer) << layer.error().message;
    sum = (*layer)->result();
  }
  graph.outputs.push_back(sum);
  PassReport report;
  const auto changed = RunInSegments(graph, FusePointwise, {}, report, {.most = 16, .of_segment = 8});
  ASSERT_TRUE(changed) << changed.error().message;
  for (const auto& node : graph.nodes) {
    ASSERT_EQ(node->kind, OpKind::kRegion) << PrintNode(*node);
    EXPECT_EQ(node->operands.size(), 2U) << PrintNode(*node);  // the sum and what all views are of
  }
}

}  // namespace
}  // namespace fusec
