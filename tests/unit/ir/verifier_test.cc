#include <gtest/gtest.h>

#include "compiler/ir/graph.h"

namespace fusec {
namespace {

std::string VerdictOn(const std::string& text) {
  Result<std::unique_ptr<Graph>> graph = Parse(text);
  if (!graph) return graph.error().message;
  const Result<void> verdict = Verify(**graph);
  return verdict ? "good" : verdict.error().message;
}

TEST(Verifier, AcceptsRegionsAndConstants) {
  EXPECT_EQ(VerdictOn(R"(graph @g(%x: f32[batch, 3]) symbols(batch in 0..8) {
    %w = constant() payload "abc" : f32[3]
    %r = region(%x, %w) {class = "pointwise"} : f32[batch, 3] {
      graph @body(%a: f32[batch, 3], %b: f32[3]) {
        %c = add(%a, %b) : f32[batch, 3]
        return %c
      }
    }
    return %r
  })"),
            "good");
}

TEST(Verifier, NamesWhatIsWrong) {
  EXPECT_EQ(VerdictOn("graph @g(%x: f32[3]) { %y = relu(%x) : f32[4] return %y }"),
            "graph @g: %y = relu(%x) : f32[4]: %y is f32[4], expected f32[3]");
  EXPECT_EQ(VerdictOn("graph @g(%x: f32[n]) { return %x }"),
            "graph @g: input %x: dim n of %x uses \"n\", which the graph does not declare");
  EXPECT_EQ(VerdictOn("graph @g(%x: f32[n]) symbols(n in 4..3) { return %x }"),
            "graph @g: symbol n: ranges over 4..3, expected a range of sizes");
  EXPECT_EQ(VerdictOn("graph @g(%x: f32[3]) { %y = add(%x) : f32[3] return %y }"),
            "graph @g: %y = add(%x) : f32[3]: add has 1 operands, expected 2");
  EXPECT_EQ(VerdictOn("graph @g(%x: f32[3]) { %y = transpose(%x) : f32[3] return %y }"),
            "graph @g: %y = transpose(%x) : f32[3]: transpose lacks its attribute \"perm\" (ints)");
  EXPECT_EQ(VerdictOn("graph @g(%x: f32[3]) { %y = max(%x, _) : f32[3] return %y }"),
            "graph @g: %y = max(%x, _) : f32[3]: max lacks its operand 1");
  EXPECT_EQ(VerdictOn("graph @g(%x: f32[3]) { %r = region(%x) {class = \"pointwise\"} : f32[3] "
                      "{ graph @b(%a: f32[2]) { return %a } } return %r }"),
            "graph @g: %r = region(%x) {class = \"pointwise\"} : f32[3]: operand %x is f32[3], but "
            "the body's %a is "
            "f32[2]");
}

TEST(Verifier, ChecksAttributesAgainstTheOp) {
  const auto verdict = [](const std::string& node) {
    return VerdictOn("graph @g(%x: f32[b, 3], %s: f32[3]) symbols(b in 1..8) {\n" + node +
                     " return %y }");
  };
  EXPECT_EQ(verdict("%y = transpose(%x) {perm = 1} : f32[3, b]"),
            "graph @g: %y = transpose(%x) {perm = 1} : f32[3, b]: attribute \"perm\" is of kind "
            "int, expected ints");
  EXPECT_EQ(verdict("%y = relu(%x) {alpha = 0.5} : f32[b, 3]"),
            "graph @g: %y = relu(%x) {alpha = 0.5} : f32[b, 3]: relu has no attribute \"alpha\"");
  EXPECT_EQ(verdict("%y = gelu(%x) {approximate = \"erf\"} : f32[b, 3]"),
            "graph @g: %y = gelu(%x) {approximate = \"erf\"} : f32[b, 3]: approximate is \"erf\", "
            "expected one of none|tanh");
  EXPECT_EQ(verdict("%y = expand(%x) {shape = dims[c, 3]} : f32[b, 3]"),
            "graph @g: %y = expand(%x) {shape = dims[c, 3]} : f32[b, 3]: dim c of shape uses "
            "\"c\", which the graph does not declare");
  EXPECT_EQ(verdict("%y = layer_normalization(%x, %s) {axis = 1, epsilon = 0.1, stash = f32} : "
                    "f32[b, 3]"),
            "graph @g: %y = layer_normalization(%x, %s) {axis = 1, epsilon = 0.1, stash = f32} : "
            "f32[b, 3]: 1 results, expected 3");
}

TEST(Verifier, RefusesSizesThatCannotBeCounted) {
  EXPECT_EQ(VerdictOn("graph @g(%x: f32[n, 4611686018427387904]) symbols(n in 0..8) { return %x }"),
            "graph @g: input %x: %x is f32[n, 4611686018427387904], more bytes than 64 bits count");
  EXPECT_EQ(VerdictOn("graph @g(%x: f32[n - 9]) symbols(n in 0..8) { return %x }"),
            "graph @g: input %x: %x has a dim of n - 9");
}

TEST(Verifier, SeesBrokenGraphs) {
  Graph graph;
  graph.name = "g";
  Value* x = graph.AddInput("x", {Dtype::kF32, {Expr(3)}});
  Builder builder(graph);
  Value* y = builder.Make(OpKind::kRelu, {x});
  Value* z = builder.Make(OpKind::kAbs, {y});
  graph.outputs = {z};
  ASSERT_TRUE(Verify(graph).has_value());

  std::swap(graph.nodes[0], graph.nodes[1]);
  EXPECT_EQ(Verify(graph).error().message,
            "graph @g: %abs = abs(%relu) : f32[3]: %relu is used before it is defined");
  std::swap(graph.nodes[0], graph.nodes[1]);
  y->name = "x";
  EXPECT_EQ(Verify(graph).error().message,
            "graph @g: %x = relu(%x) : f32[3]: %x is defined twice");
  y->name = "a b";
  EXPECT_EQ(Verify(graph).error().message,
            "graph @g: %a b = relu(%x) : f32[3]: \"a b\" is no identifier");
  y->name = "y";
  graph.output_names = {"one", "two"};
  EXPECT_EQ(Verify(graph).error().message,
            "graph @g: 1 outputs have 2 names, expected one each or none");
  graph.output_names.clear();
  graph.outputs[0] = nullptr;
  EXPECT_EQ(Verify(graph).error().message, "graph @g: return: a value is missing");
}

}  // namespace
}  // namespace fusec
