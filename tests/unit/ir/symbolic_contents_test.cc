#include "compiler/ir/symbolic_contents.h"

#include "tests/unit/ops/view_harness.h"

namespace fusec {
namespace {

struct SymbolicContentsTest : testing::Test {
  SymbolicContentsTest() {
    graph.symbols = {{"n", 1, 4096}, {"m", 1, 512}};
    shape = builder().Make(
        OpKind::kSymbolicDims, {},
        {{"values", Exprs{Sym("n"), Sym("m"), 768}}, {"scalar", int64_t{0}}});
  }
  Builder builder() { return Builder(graph); }
  Value* Make(OpKind kind, ValueList operands, Attributes attributes = {}) {
    return builder().Make(kind, std::move(operands), std::move(attributes));
  }
  Value* Element(int64_t i) {
    return Make(OpKind::kGather, {shape, IntScalar(graph, i)}, {{"axis", int64_t{0}}});
  }
  Value* Vector(Value* scalar) { return Make(OpKind::kReshape, {scalar}, {{"shape", Shape{1}}}); }
  std::string Contents(Value* value) {
    const auto contents = SymbolicContents(value, graph.SymbolRanges());
    if (!contents) return "unknown";
    std::string text;
    for (const Expr& element : *contents) text += (text.empty() ? "" : " ") + element.ToString();
    return text;
  }
  Graph graph;
  Value* shape;
};

TEST_F(SymbolicContentsTest, ShapeGatherConcat) {
  Value* heads = Make(OpKind::kConcat,
                      {Vector(Element(0)), Vector(Element(-2)), IntsConstant(graph, {12, -1})},
                      {{"axis", int64_t{0}}});
  EXPECT_EQ(Contents(heads), "n m 12 -1");
  EXPECT_EQ(Contents(Element(2)), "768");
  Value* run_time = graph.AddInput("i", {Dtype::kI64, {}});
  EXPECT_EQ(Contents(Make(OpKind::kGather, {shape, run_time}, {{"axis", int64_t{0}}})), "unknown");
  EXPECT_EQ(Contents(run_time), "unknown");
}

TEST_F(SymbolicContentsTest, SliceAndArithmetic) {
  Value* tail =
      Make(OpKind::kSlice, {shape},
           {{"starts", Exprs{2}}, {"steps", IntList{-1}}, {"shape", Shape{2}}});
  EXPECT_EQ(Contents(tail), "768 m");
  EXPECT_EQ(Contents(Make(OpKind::kMul, {shape, IntScalar(graph, 2)})), "n*2 m*2 1536");
  EXPECT_EQ(Contents(Make(OpKind::kSub, {Element(0), IntsConstant(graph, {1})})), "n - 1");
  EXPECT_EQ(Contents(Make(OpKind::kDiv, {IntsConstant(graph, {-7, 7}), IntScalar(graph, 2)})),
            "-3 3");
  EXPECT_EQ(Contents(Make(OpKind::kDiv, {Element(0), IntScalar(graph, 0)})), "unknown");
  EXPECT_EQ(Contents(Make(OpKind::kDiv, {Element(0), IntScalar(graph, 4)})), "floordiv(n, 4)");
  EXPECT_EQ(Contents(Make(OpKind::kReduceProd, {shape},
                          {{"axes", IntList{0}}, {"keepdims", int64_t{0}}})),
            "m*n*768");
  EXPECT_EQ(Contents(Make(OpKind::kMax, {Element(0), IntScalar(graph, 1)})), "n");
}

TEST_F(SymbolicContentsTest, ExpandsMinusOneAsExportersWriteIt) {
  Value* minus_one = Make(OpKind::kExpand, {IntScalar(graph, -1)}, {{"shape", Shape{3}}});
  Value* is_minus_one = Make(OpKind::kEqual, {shape, minus_one});
  EXPECT_EQ(Contents(is_minus_one), "0 0 0");
  EXPECT_EQ(Contents(Make(OpKind::kWhere, {is_minus_one, IntScalar(graph, 1), shape})), "n m 768");
  EXPECT_EQ(Contents(Make(OpKind::kEqual, {Element(0), Element(1)})), "unknown");
}

TEST_F(SymbolicContentsTest, CastsKeepOnlyWhatFits) {
  const auto cast = [&](Value* value, Dtype to) {
    return Make(OpKind::kCast, {value}, {{"to", to}});
  };
  EXPECT_EQ(Contents(cast(shape, Dtype::kI32)), "n m 768");
  EXPECT_EQ(Contents(cast(shape, Dtype::kI8)), "unknown");
  EXPECT_EQ(Contents(cast(IntsConstant(graph, {5, 0}), Dtype::kBool)), "1 0");
  // Sizes up to 65536 are exact in f32, which holds integers up to 2^24, but not in f16.
  EXPECT_EQ(Contents(cast(cast(shape, Dtype::kF32), Dtype::kI64)), "n m 768");
  EXPECT_EQ(Contents(cast(cast(shape, Dtype::kF16), Dtype::kI64)), "unknown");
}

TEST_F(SymbolicContentsTest, RangesAndSizes) {
  EXPECT_EQ(Contents(Make(OpKind::kRange, {},
                          {{"start", int64_t{5}},
                           {"delta", int64_t{-2}},
                           {"length", Exprs{3}},
                           {"dtype", Dtype::kI64}})),
            "5 3 1");
  EXPECT_EQ(Contents(IntsConstant(graph, IntList(256, 1))).size(), 511u);
  EXPECT_EQ(Contents(IntsConstant(graph, IntList(257, 1))), "unknown");
  EXPECT_EQ(Contents(IntsConstant(graph, {})), "");
}

// Every node uses its predecessor twice: without memoization of shared nodes this would take 2^60 steps.
TEST_F(SymbolicContentsTest, SharedChainsAreLinear) {
  Value* value = Element(0);
  for (int i = 0; i < 60; ++i) value = Make(OpKind::kMin, {value, value});
  EXPECT_EQ(Contents(value), "n");
}

}  // namespace
}  // namespace fusec
