// Printer and parser: the parser reads whatever the printer writes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compiler/ir/graph.h"

namespace fusec {
namespace {

std::unique_ptr<Graph> MustParse(std::string_view text) {
  Result<std::unique_ptr<Graph>> graph = Parse(text);
  EXPECT_TRUE(graph.has_value()) << graph.error().message;
  return graph ? *std::move(graph) : std::make_unique<Graph>();
}

std::string ErrorOf(std::string_view text) {
  Result<std::unique_ptr<Graph>> graph = Parse(text);
  return graph ? "no error" : graph.error().message;
}

constexpr const char* kEverything =
    R"(graph @mlp(%x "dense": f32[batch, 13], %ids "ids:0": i64[batch*2 + 1, 26]) symbols(batch in 1..65536, items in 0..10) metadata(file = "a \"b\"\\c.onnx", opset = "17") {
  %w = constant() payload "3f2a" : f32[512, 13]  @ "bottom.0.weight"
  %axes.1 = constant() [1, 2, -3] : i64[3]
  %f = constant() [1.0, -0.0, nan, inf, -inf, 1e-45, 0.1, 3.4028235e+38] : f32[2, 4]
  %b = constant() [true, false] : bool[2]
  %u = constant() [18446744073709551615] : u64[]
  %none = constant() [] : f16[0, 3]
  %h = matmul(%x, %w) {transpose_a = 0, transpose_b = 1} : f32[batch, 512]  @ "/fc1/Gemm" "Gemm" "bottom.0" "workloads.py:51" @ "n\n\x01"
  %a, %c = top_k(%h) {alpha = 1.0, dtype = f32, empty = [], fill = -inf, k = dims[batch, 3], mode = "x", no_dims = dims[], no_floats = floats[], scales = [0.5, 2.0, 1e+20], signs = [-1, 0]} : f32[batch, 3], i64[batch, 3]
  %y = clip(%h, _, %u) : f32[batch, 512]
  %r = region(%h) {class = "pointwise"} : f32[batch, 512]  @ "" "Relu" {
    graph @"bias relu"(%p: f32[batch, 512]) {
      %q = relu(%p) : f32[batch, 512]
      return %q
    }
  }
  return %h "scores", %a "", %a "again"
}
)";

TEST(Text, RoundTripsEverything) { EXPECT_EQ(Print(*MustParse(kEverything)), kEverything); }

TEST(Text, KeepsKindsOfAttributesApart) {
  const auto graph = MustParse(kEverything);
  const Node& node = *graph->nodes[7];
  EXPECT_EQ(node.Float("alpha"), 1.0);
  EXPECT_TRUE(node.Ints("empty").empty());
  EXPECT_TRUE(node.Get<std::vector<double>>("no_floats").empty());
  EXPECT_EQ(node.Get<Exprs>("k"), (Exprs{Expr::Symbol("batch"), 3}));
  EXPECT_EQ(node.Get<Dtype>("dtype"), Dtype::kF32);
  EXPECT_EQ(graph->nodes[8]->operands[1], nullptr);
  EXPECT_EQ(graph->nodes[6]->provenance[1].onnx_node, "n\n\x01");
  EXPECT_EQ(graph->nodes[9]->body->symbols, graph->symbols);
}

TEST(Text, CloneIsEqualAndSeparate) {
  const auto graph = MustParse(kEverything);
  const auto clone = graph->Clone();
  EXPECT_TRUE(Equal(*graph, *clone));
  clone->nodes[9]->body->nodes[0]->results[0]->name = "other";
  EXPECT_FALSE(Equal(*graph, *clone));
  EXPECT_EQ(clone->outputs[0]->producer, clone->nodes[6].get());
}

TEST(Text, AsksForPayloads) {
  const TensorData data(Dtype::kF32, {17});
  Graph graph;
  graph.outputs.push_back(Builder(graph).Constant(data));
  const std::string text = Print(graph);
  EXPECT_NE(text.find("payload \"" + data.Hash() + "\""), std::string::npos);
  const auto with = Parse(text, [&](const std::string& hash) -> std::optional<TensorData> {
    return hash == data.Hash() ? std::optional(data) : std::nullopt;
  });
  ASSERT_TRUE(with.has_value());
  EXPECT_EQ((*with)->nodes[0]->constant.bytes(), data.bytes());
  EXPECT_EQ(MustParse(text)->nodes[0]->constant.bytes(), nullptr);
}

TEST(Text, OddNaNsKeepTheirBits) {
  TensorData data(Dtype::kF32, {1});
  const uint32_t bits = 0xffc00001;
  std::copy_n(reinterpret_cast<const std::byte*>(&bits), 4, data.mutable_bytes());
  Graph graph;
  graph.outputs.push_back(Builder(graph).Constant(data));
  EXPECT_NE(Print(graph).find("[nan(4290772993)]"), std::string::npos);
  EXPECT_EQ(MustParse(Print(graph))->nodes[0]->constant_hash, data.Hash());
}

TEST(Text, ManyInputsGetALineEach) {
  Graph graph;
  graph.name = "g";
  for (int i = 0; i < 6; ++i) graph.AddInput("a_rather_long_name", {Dtype::kF32, {Expr(3)}});
  graph.outputs.push_back(graph.inputs[0].get());
  EXPECT_NE(Print(graph).find(",\n         %a_rather_long_name_1: f32[3]"), std::string::npos);
  EXPECT_EQ(Print(*MustParse(Print(graph))), Print(graph));
}

TEST(Text, RunTimeSizesOfOutputs) {
  const std::string text =
      "graph @g(%x: f32[n], %s: i64[1]) symbols(n in 1..9) {\n  return %x \"x\", %s \"sizes\" "
      "sizes(0 axis 0)\n}\n";
  const auto graph = MustParse(text);
  EXPECT_EQ(Print(*graph), text);
  EXPECT_EQ(Print(*graph->Clone()), text);
  EXPECT_EQ(graph->model_output_count(), 1u);
  EXPECT_EQ(graph->run_time_sizes, (std::vector<RunTimeSize>{{0, 0}}));
  EXPECT_TRUE(Verify(*graph));
  graph->run_time_sizes[0].axis = 1;
  EXPECT_EQ(Verify(*graph).error().message,
            "graph @g: return: there is no output 0 with an axis 1");
  graph->run_time_sizes.push_back({0, 0});
  EXPECT_EQ(Verify(*graph).error().message,
            "graph @g: return: the last output holds run-time sizes, expected i64[2]");
  // 2^32 is not output 0.
  std::string beyond = text;
  beyond.replace(beyond.find("sizes(0"), 7, "sizes(4294967296");
  EXPECT_EQ(Parse(beyond).error().message,
            "line 2, column 35: expected the number of an output, found '4294967296'");
}

TEST(Text, ErrorsNameThePlace) {
  EXPECT_EQ(ErrorOf(""), "line 1, column 1: expected 'graph', found the end of the text");
  EXPECT_EQ(ErrorOf("# why\ngraph x"), "line 2, column 7: expected '@', found 'x'");
  EXPECT_EQ(ErrorOf("graph @g(%x: f33[2])"),
            "line 1, column 14: expected a type such as f32[batch, 13], found 'f33'");
  EXPECT_EQ(ErrorOf("graph @g() {\n  %y = relu(%x) : f32[]\n  return %y\n}"),
            "line 2, column 14: %x is not defined");
  EXPECT_EQ(ErrorOf("graph @g(%x: f32[], %x: f32[]) { return %x }"),
            "line 1, column 22: %x is defined twice");
  EXPECT_EQ(ErrorOf("graph @g(%x: f32[]) {\n  %y = rleu(%x) : f32[]"),
            "line 2, column 8: expected an op, found 'rleu'");
  EXPECT_EQ(ErrorOf("graph @g(%x: f32[]) { return %x"),
            "line 1, column 32: expected ',', found the end of the text");
  EXPECT_EQ(ErrorOf("graph @g() { %c = constant() [300] : u8[1] return %c }"),
            "line 1, column 44: 300 is no element of u8[1]");
  EXPECT_EQ(ErrorOf("graph @g() { %c = constant() [1, 2] : u8[3] return %c }"),
            "line 1, column 45: a constant of u8[3] has 2 elements, expected 3");
  EXPECT_EQ(ErrorOf("graph @g() { %c = constant() [1] : u8[-1, -1] return %c }"),
            "line 1, column 47: a constant of u8[-1, -1] has a negative dim");
  EXPECT_EQ(ErrorOf("graph @g(%x: f32[]) { %y = relu(%x) {a = 1, a = 2} : f32[] return %y }"),
            "line 1, column 45: attribute 'a' is given twice");
  EXPECT_EQ(ErrorOf("graph @g(%x: f32[]) { %y = relu(%x) {a = [1, 2.5]} : f32[] return %y }"),
            "line 1, column 46: expected an integer, found '2.5'");
  EXPECT_EQ(ErrorOf("graph @\"g() {"), "line 1, column 8: this string does not end");
  EXPECT_EQ(ErrorOf("graph @g(%x \"x\": f32[], %y: f32[]) { return %x }"),
            "line 1, column 34: 1 of 2 inputs have a quoted name, expected all or none");
}

}  // namespace
}  // namespace fusec
