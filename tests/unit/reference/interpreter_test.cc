#include "compiler/reference/interpreter.h"

#include <gtest/gtest.h>

namespace fusec {
namespace {

std::unique_ptr<Graph> MustParse(const std::string& text) {
  Result<std::unique_ptr<Graph>> graph = Parse(text);
  EXPECT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_TRUE(Verify(**graph).has_value()) << Verify(**graph).error().message;
  return *std::move(graph);
}

std::string Bound(const std::string& inputs, ArrayRef<std::vector<int64_t>> dims) {
  const auto graph =
      MustParse("graph @g(" + inputs + ") symbols(batch in 1..64, items in 0..64) { return }");
  const auto symbols = BindSymbols(*graph, dims);
  if (!symbols) return symbols.error().message;
  std::string text;
  for (const auto& [name, value] : *symbols) text += name + "=" + std::to_string(value) + " ";
  return text;
}

TEST(BindSymbols, ReadsAndSolves) {
  EXPECT_EQ(Bound("%a: f32[batch, 13], %b: i64[items]", {{5, 13}, {0}}), "batch=5 items=0 ");
  EXPECT_EQ(Bound("%a: f32[batch*27 + items], %b: i64[items]", {{57}, {3}}), "batch=2 items=3 ");
  EXPECT_EQ(Bound("%a: f32[batch*items], %b: i64[batch*2 + 1]", {{15}, {11}}),
            "batch=5 items=3 ");
}

TEST(BindSymbols, NamesContradictions) {
  EXPECT_EQ(Bound("%a \"sparse\": i64[batch], %b \"dense\": f32[batch, items]", {{5}, {7, 1}}),
            "input \"dense\" dim 0 is 7, but \"batch\" is already 5 (from input \"sparse\")");
  EXPECT_EQ(Bound("%a: f32[batch, 13], %b: f32[items]", {{5, 12}, {1}}),
            "input \"a\" dim 1 is 12, expected 13");
  EXPECT_EQ(Bound("%a: f32[batch, items]", {{0, 1}}),
            "input \"a\" dim 0 is 0, but \"batch\" must be in 1..64");
  EXPECT_EQ(Bound("%a: f32[batch], %b: f32[items*2]", {{1}, {130}}),
            "input \"b\" dim 0 is 130, which makes \"items\" 65, but \"items\" must be in 0..64");
  EXPECT_EQ(Bound("%a: f32[batch], %b: f32[items*2]", {{1}, {3}}),
            "input \"b\" dim 0 is 3, expected items*2 for some \"items\"");
  EXPECT_EQ(Bound("%a: f32[batch, items], %b: f32[batch*2]", {{4, 1}, {7}}),
            "input \"b\" dim 0 is 7, expected batch*2 = 8 (batch = 4 from input \"a\")");
  EXPECT_EQ(Bound("%a: f32[batch, items]", {{4}}),
            "input \"a\" has rank 1 ([4]), expected rank 2 ([batch, items])");
  EXPECT_EQ(Bound("%a: f32[batch]", {}), "0 inputs were given, expected 1");
  EXPECT_EQ(Bound("%a: f32[batch]", {{1}}), "no input's dims tell the value of \"items\"");
}

TEST(Interpreter, RunsRegionsAsTheirBodies) {
  const auto graph = MustParse(R"(graph @g(%x: f32[batch]) symbols(batch in 0..8) {
    %one = constant() [1.0] : f32[]
    %r = region(%x, %one) {class = "pointwise"} : f32[batch] {
      graph @body(%a: f32[batch], %b: f32[]) {
        %c = add(%a, %b) : f32[batch]
        %d = relu(%c) : f32[batch]
        return %d
      }
    }
    %sum = add(%r, %x) : f32[batch]
    return %sum, %x, %sum
  })");
  ReferenceTensor x(Dtype::kF32, {3});
  x.reals = {-2, 0, 0.1};
  const auto results = Interpret(*graph, {x});
  ASSERT_TRUE(results.has_value()) << results.error().message;
  EXPECT_EQ((*results)[0].reals, (std::vector<double>{-2, 1, 1.1 + 0.1}));
  EXPECT_EQ((*results)[1].reals, x.reals);
  EXPECT_EQ((*results)[2].reals, (*results)[0].reals);
  EXPECT_EQ((*Interpret(*graph, {ReferenceTensor(Dtype::kF32, {0})}))[0].element_count(), 0);
}

TEST(Interpreter, JudgesCompositesThroughTheirParts) {
  Graph graph;
  graph.symbols = {{"batch", 1, 8}};
  const TensorType type{Dtype::kF32, {Expr::Symbol("batch"), Expr(2)}};
  Builder builder(graph);
  Value* one = builder.Constant(TensorData::From<double>(Dtype::kF32, {2}, {1, 10}));
  graph.outputs = {builder.Make(OpKind::kSum, {graph.AddInput("x", type), one, one})};
  const auto results = Interpret(graph, {ReferenceTensor(Dtype::kF32, {2, 2})});
  ASSERT_TRUE(results.has_value()) << results.error().message;
  EXPECT_EQ((*results)[0].reals, (std::vector<double>{2, 20, 2, 20}));
}

TEST(Interpreter, RefusesWrongData) {
  const auto graph = MustParse("graph @g(%x \"ids\": i64[3]) { return %x }");
  EXPECT_EQ(Interpret(*graph, {ReferenceTensor(Dtype::kF32, {3})}).error().message,
            "input \"ids\" is f32, expected i64");
  const auto hollow =
      MustParse("graph @g() { %w = constant() payload \"ab\" : f32[99] return %w }");
  EXPECT_EQ(Interpret(*hollow, {}).error().message,
            "constant \"w\" was read without its data (ab)");
}

TEST(ReferenceTensor, IndexesAndWraps) {
  ReferenceTensor tensor(Dtype::kI8, {2, 3});
  EXPECT_EQ(tensor.Position({1, 2}), 5);
  tensor.ints = {300, -129, 127, 128, 0, -1};
  tensor.WrapInts();
  EXPECT_EQ(tensor.ints, (std::vector<int64_t>{44, 127, 127, -128, 0, -1}));

  int visits = 0;
  ForEachIndex({2, 0}, [&](const auto&) { ++visits; });
  EXPECT_EQ(visits, 0);
  ForEachIndex({}, [&](const auto& index) { visits += index.empty(); });
  EXPECT_EQ(visits, 1);
  std::string order;
  ForEachIndex({2, 2}, [&](const auto& index) {
    order += std::to_string(index[0]) + std::to_string(index[1]) + " ";
  });
  EXPECT_EQ(order, "00 01 10 11 ");
}

TEST(ReferenceContext, ChecksIndices) {
  Graph graph;
  Value* x = graph.AddInput("x", {Dtype::kF32, {Expr(4), Expr(3)}});
  const Node& node = *(*Builder(graph).Add(OpKind::kRelu, {x}, {}, "y"));
  const ReferenceTensor data(Dtype::kF32, {4, 3});
  std::vector<ReferenceTensor> results;
  const std::map<std::string, int64_t> symbols;
  const ReferenceContext context(node, {&data}, results, symbols);
  EXPECT_EQ(*context.CheckedIndex(0, 5, -26, 26), 0);
  EXPECT_EQ(*context.CheckedIndex(0, 5, 25, 26), 25);
  EXPECT_EQ(context.CheckedIndex(0, 5, 26, 26).error().message,
            "node \"%y\": index 26 at [1, 2] of \"x\" is outside -26..25");
  EXPECT_EQ(context.CheckedIndex(0, 0, 0, 0).error().kind, ErrorKind::kInput);
}

}  // namespace
}  // namespace fusec
