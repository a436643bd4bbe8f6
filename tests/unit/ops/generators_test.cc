#include <limits>

#include "tests/unit/ops/view_harness.h"

namespace fusec {
namespace {

struct Generators : testing::Test {
  Generators() {
    graph.symbols = {{"n", 1, 64}};
    x = graph.AddInput("x", {Dtype::kF32, {Sym("n"), 3}});
  }
  std::vector<double> Answer(Value* output) {
    return Values(RunOutput(graph, output, {ReferenceTensor(Dtype::kF32, {4, 3})}));
  }
  Value* Dims(Exprs values, int64_t scalar) {
    return Builder(graph).Make(OpKind::kSymbolicDims, {},
                               {{"values", std::move(values)}, {"scalar", scalar}});
  }
  Graph graph;
  Value* x;
};

TEST_F(Generators, ShapeAndSize) {
  FakeImport shape(graph, "Shape", 13, {x});
  ASSERT_TRUE(shape.Run());
  EXPECT_EQ(Answer(shape.outputs[0]), (std::vector<double>{4, 3}));
  FakeImport end(graph, "Shape", 15, {x});
  ASSERT_TRUE(end.With("start", int64_t{-9}).With("end", int64_t{-1}).Run());
  EXPECT_EQ(Answer(end.outputs[0]), (std::vector<double>{4}));
  FakeImport none(graph, "Shape", 15, {x});
  ASSERT_TRUE(none.With("start", int64_t{2}).With("end", int64_t{1}).Run());
  EXPECT_EQ(none.outputs[0]->type.ToString(), "i64[0]");
  EXPECT_TRUE(Answer(none.outputs[0]).empty());
  FakeImport size(graph, "Size", 13, {x});
  ASSERT_TRUE(size.Run());
  EXPECT_EQ(size.outputs[0]->type.ToString(), "i64[]");
  EXPECT_EQ(Answer(size.outputs[0]), (std::vector<double>{12}));
}

TEST_F(Generators, RangeOfIntegers) {
  FakeImport up(graph, "Range", 11,
                {IntScalar(graph, 0), Dims({Sym("n")}, 1), IntScalar(graph, 1)});
  ASSERT_TRUE(up.Run());
  EXPECT_EQ(up.outputs[0]->type.ToString(), "i64[n]");
  EXPECT_EQ(Answer(up.outputs[0]), (std::vector<double>{0, 1, 2, 3}));
  FakeImport down(graph, "Range", 11,
                  {Dims({Sym("n")}, 1), IntScalar(graph, 0), IntScalar(graph, -3)});
  ASSERT_TRUE(down.Run());  // a symbolic start
  EXPECT_EQ(Answer(down.outputs[0]), (std::vector<double>{4, 1}));
  FakeImport none(graph, "Range", 11,
                  {IntScalar(graph, 3), IntScalar(graph, 1), IntScalar(graph, 1)});
  ASSERT_TRUE(none.Run());
  EXPECT_EQ(none.outputs[0]->type.ToString(), "i64[0]");
  FakeImport endless(graph, "Range", 11,
                     {IntScalar(graph, 3), IntScalar(graph, 1), IntScalar(graph, 0)});
  EXPECT_EQ(endless.Run().error().message, "delta is 0, expected a constant other than 0");
}

TEST_F(Generators, RangeOfFloats) {
  Builder builder(graph);
  const auto range = [&](double start, double limit, double delta) {
    return FakeImport(graph, "Range", 11,
                      {builder.Scalar(Dtype::kF32, start), builder.Scalar(Dtype::kF32, limit),
                       builder.Scalar(Dtype::kF32, delta)});
  };
  FakeImport import = range(1, 2.25, 0.5);
  ASSERT_TRUE(import.Run());
  graph.outputs = {import.outputs[0]};
  const ReferenceTensor input(Dtype::kF32, {4, 3});
  EXPECT_EQ((*Interpret(graph, {input}))[0].reals, (std::vector<double>{1, 1.5, 2}));
  LowerEvaluator lower(graph, *import.outputs[0]->producer, 0, {}, {});
  lower.At({2});
  EXPECT_EQ(lower.written, "1.0f + (float)(2) * 0.5f");
  EXPECT_NE(range(0, 1, 0).Run().error().message.find("has no end"), std::string::npos);
}

TEST_F(Generators, EyeLike) {
  FakeImport import(graph, "EyeLike", 9, {x});
  ASSERT_TRUE(import.With("k", int64_t{-1}).With("dtype", Dtype::kI32).Run());
  EXPECT_EQ(import.outputs[0]->type.ToString(), "i32[n, 3]");
  EXPECT_EQ(Answer(import.outputs[0]), (std::vector<double>{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1}));
}

TEST(OneHot, IndicesWrapOnceAndElseAreAllOff) {
  Graph graph;
  Value* indices = graph.AddInput("i", {Dtype::kI64, {4}});
  Value* values = graph.AddInput("v", {Dtype::kF32, {2}});
  FakeImport import(graph, "OneHot", 11, {indices, Builder(graph).Scalar(Dtype::kF32, 3), values});
  ASSERT_TRUE(import.With("axis", int64_t{0}).Run());
  EXPECT_EQ(import.outputs[0]->type.ToString(), "f32[3, 4]");
  const ReferenceTensor i = Tensor(Dtype::kI64, {4}, {0, -1, 3, -4});
  const ReferenceTensor v = Tensor(Dtype::kF32, {2}, {-1, 5});
  EXPECT_EQ(RunOutput(graph, import.outputs[0], {i, v}).reals,
            (std::vector<double>{5, -1, -1, -1, -1, -1, -1, -1, -1, 5, -1, -1}));
  LowerEvaluator lower(graph, *import.outputs[0]->producer, 0, {&i, &v}, {});
  lower.At({2, 1});
  EXPECT_EQ(lower.written, "0 == 2 || 0 == -1 ? 5.000000 : -1.000000");
}

}  // namespace
}  // namespace fusec
