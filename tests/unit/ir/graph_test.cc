#include "compiler/ir/graph.h"

#include <gtest/gtest.h>

#include "compiler/ir/op_def.h"

namespace fusec {
namespace {

const TensorType kRows = {Dtype::kF32, {Expr::Symbol("batch"), Expr(3)}};

TEST(Graph, NamesAreUniqueIdentifiers) {
  Graph graph;
  EXPECT_EQ(graph.AddInput("/fc1/Gemm_output_0", kRows)->name, "fc1_Gemm_output_0");
  EXPECT_EQ(graph.AddInput("fc1_Gemm_output_0", kRows)->name, "fc1_Gemm_output_0_1");
  EXPECT_EQ(graph.AddInput("fc1_Gemm_output_0", kRows)->name, "fc1_Gemm_output_0_2");
  EXPECT_EQ(graph.AddInput("123", kRows)->name, "_123");
  EXPECT_EQ(graph.AddInput("", kRows)->name, "value");
  EXPECT_EQ(graph.AddInput("::", kRows)->name, "value_1");
}

TEST(Graph, BuildsInPlaceAndCountsUses) {
  Graph graph;
  graph.symbols = {{"batch", 1, 8}};
  Value* x = graph.AddInput("x", kRows);
  Builder builder(graph);
  Value* last = builder.Make(OpKind::kRelu, {x}, {}, "last");
  graph.outputs = {last, last};

  Builder before(graph, 0);
  before.set_provenance({{"/Add", "Add", "", ""}});
  Value* first = before.Make(OpKind::kAdd, {x, before.Scalar(Dtype::kF32, 1)});
  EXPECT_EQ(before.insert_at(), 2u);
  EXPECT_EQ(graph.nodes[1]->result(), first);
  EXPECT_EQ(first->name, "add");
  EXPECT_EQ(first->producer->provenance[0].onnx_op, "Add");
  EXPECT_EQ(first->type, kRows);
  EXPECT_EQ(graph.CountUses()[x], 2);
  EXPECT_EQ(graph.CountUses()[last], 2);

  graph.ReplaceAllUses(last, first);
  EXPECT_EQ(graph.outputs, (ValueList{first, first}));
  EXPECT_TRUE(Verify(graph).has_value());
}

TEST(Graph, AddRejectsWhatTheOpCannotTake) {
  Graph graph;
  Value* x = graph.AddInput("x", kRows);
  Value* y = graph.AddInput("y", {Dtype::kF32, {Expr(4)}});
  Builder builder(graph);
  EXPECT_EQ(builder.Add(OpKind::kAdd, {x}).error().message, "add has 1 operands, expected 2");
  EXPECT_EQ(builder.Add(OpKind::kAdd, {nullptr, x}).error().message, "add lacks its operand 0");
  EXPECT_FALSE(builder.Add(OpKind::kAdd, {x, y}).has_value());
  EXPECT_TRUE(graph.nodes.empty());
  Node* clip = *builder.Add(OpKind::kClip, {x, nullptr, nullptr});
  EXPECT_EQ(clip->operands.size(), 1u);
}

TEST(Ops, TableIsInOrderAndFound) {
  for (size_t i = 0; i < AllOps().size(); ++i) {
    const OpDef& op = AllOps()[i];
    EXPECT_EQ(static_cast<size_t>(op.kind), i);
    EXPECT_EQ(FindOpByText(op.text), &op);
  }
  EXPECT_EQ(FindOpByOnnx("CastLike")->kind, OpKind::kCast);
  EXPECT_EQ(FindOpByOnnx("Unsqueeze")->kind, OpKind::kReshape);
  EXPECT_EQ(FindOpByOnnx("Unsqueez"), nullptr);
  EXPECT_EQ(FindOpByOnnx("Flatten,Reshape"), nullptr);
  EXPECT_EQ(FindOpByOnnx(""), nullptr);
}

TEST(Ops, Broadcast) {
  const Expr batch = Expr::Symbol("batch");
  EXPECT_EQ(*BroadcastShapes({{batch, 1}, {3}}), (Shape{batch, 3}));
  EXPECT_EQ(*BroadcastShapes({{}, {0}, {1}}), (Shape{0}));
  EXPECT_EQ(*BroadcastShapes({}), Shape());
  EXPECT_EQ(BroadcastShapes({{batch, 3}, {4, 3}}).error().message,
            "shapes [batch, 3] and [4, 3] do not broadcast: batch meets 4, expected equal dims "
            "or 1");
  EXPECT_EQ(BroadcastIndex({Expr::Symbol("i"), Expr::Symbol("j")}, {1}), (Exprs{0}));
  EXPECT_EQ(BroadcastIndex({Expr::Symbol("i"), Expr::Symbol("j")}, {batch, 1}),
            (Exprs{Expr::Symbol("i"), 0}));
}

}  // namespace
}  // namespace fusec
