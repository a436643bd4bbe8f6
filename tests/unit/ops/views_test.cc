#include <cmath>
#include <limits>

#include "tests/unit/ops/view_harness.h"

namespace fusec {
namespace {

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

struct Views : testing::Test {
  Views() {
    graph.symbols = {{"n", 1, 64}};
    x = graph.AddInput("x", {Dtype::kF32, {Sym("n"), 3, 4}});
  }
  // The type that `import` gives its output 0, or the error.
  std::string Outcome(FakeImport& import) {
    const Result<void> done = import.Run();
    return done ? import.outputs[0]->type.ToString() : done.error().message;
  }
  std::string Reshaped(Value* value, const IntList& shape, int64_t allowzero = 0) {
    FakeImport import(graph, "Reshape", 14, {value, IntsConstant(graph, shape)});
    import.With("allowzero", allowzero);
    return Outcome(import);
  }
  std::string Sliced(const IntList& starts, const IntList& ends, const IntList& axes,
                     const IntList& steps) {
    FakeImport import(graph, "Slice", 13,
                      {x, IntsConstant(graph, starts), IntsConstant(graph, ends),
                       IntsConstant(graph, axes), IntsConstant(graph, steps)});
    const std::string outcome = Outcome(import);
    output = import.outputs[0];
    return outcome;
  }
  std::string Padded(const std::string& mode, const IntList& pads) {
    FakeImport import(graph, "Pad", 13, {x, IntsConstant(graph, pads)});
    const std::string outcome = Outcome(import.With("mode", mode));
    output = import.outputs[0];
    return outcome;
  }
  void AddSymbolM() { graph.symbols.push_back({"m", 0, 64}); }
  Graph graph;
  Value* x = nullptr;
  Value* output = nullptr;
};

TEST_F(Views, ReshapeResolvesZeroAndMinusOneSymbolically) {
  EXPECT_EQ(Reshaped(x, {0, -1}), "f32[n, 12]");
  EXPECT_EQ(Reshaped(x, {-1, 4}), "f32[n*3, 4]");
  EXPECT_EQ(Reshaped(x, {-1}), "f32[n*12]");
  EXPECT_EQ(Reshaped(x, {-1, 5}), "shape has a -1, but n*12 elements do not divide by 5");
  EXPECT_EQ(Reshaped(x, {-1, -1}), "shape has more than one -1");
  EXPECT_EQ(Reshaped(x, {1, 1, 1, 0}), "shape[3] is 0, but the data has rank 3");
  EXPECT_EQ(Reshaped(x, {24}),
            "cannot reshape f32[n, 3, 4] to [24]: the element counts are not the same");
}

TEST_F(Views, ReshapeOfEmptyTensors) {
  Value* empty = graph.AddInput("empty", {Dtype::kF32, {0, 3, 4}});
  EXPECT_EQ(Reshaped(empty, {3, 4, 0}, 1), "f32[3, 4, 0]");
  EXPECT_EQ(Reshaped(empty, {3, 0, 5}, 1), "f32[3, 0, 5]");
  EXPECT_EQ(Reshaped(empty, {0, 12}), "f32[0, 12]");
  EXPECT_EQ(Reshaped(empty, {0, 5, -1}, 1), "shape has a -1, but 12 elements do not divide by 5");
  Value* scalar = graph.AddInput("scalar", {Dtype::kF32, {}});
  EXPECT_EQ(Reshaped(scalar, {}), "f32[]");
  EXPECT_EQ(Reshaped(scalar, {-1}), "f32[1]");
}

TEST_F(Views, ReshapeNeedsAShapeThatIsKnown) {
  FakeImport import(graph, "Reshape", 14, {x, graph.AddInput("s", {Dtype::kI64, {2}})});
  EXPECT_EQ(Outcome(import), "shape is computed from run-time data, which fusec does not support");
}

TEST_F(Views, SqueezeUnsqueezeFlatten) {
  Value* y = graph.AddInput("y", {Dtype::kF32, {1, Sym("n"), 1, 4}});
  FakeImport all(graph, "Squeeze", 13, {y});
  EXPECT_EQ(Outcome(all), "f32[n, 4]");
  FakeImport attribute(graph, "Squeeze", 11, {y});
  EXPECT_EQ(Outcome(attribute.With("axes", IntList{-2})), "f32[1, n, 4]");
  FakeImport wrong(graph, "Squeeze", 13, {y, IntsConstant(graph, {1})});
  EXPECT_EQ(Outcome(wrong), "axis 1 has n elements, expected 1");
  FakeImport unsqueeze(graph, "Unsqueeze", 13, {x, IntsConstant(graph, {4, 0})});
  EXPECT_EQ(Outcome(unsqueeze), "f32[1, n, 3, 4, 1]");
  FakeImport old(graph, "Unsqueeze", 11, {x});
  EXPECT_EQ(Outcome(old.With("axes", IntList{-1})), "f32[n, 3, 4, 1]");
  for (const auto& [axis, type] : std::vector<std::pair<int64_t, std::string>>{
           {0, "f32[1, n*12]"}, {1, "f32[n, 12]"}, {-1, "f32[n*3, 4]"}, {3, "f32[n*12, 1]"}}) {
    FakeImport flatten(graph, "Flatten", 13, {x});
    EXPECT_EQ(Outcome(flatten.With("axis", axis)), type);
  }
}

TEST_F(Views, ReshapeLowersAsTheReferenceSays) {
  Builder builder(graph);
  for (const Shape& shape : std::vector<Shape>{{Sym("n"), 2, 6},
                                               {Sym("n") * 2, 6},
                                               {12, Sym("n")},
                                               {1, Sym("n"), 4, 1, 3},
                                               {Sym("n") * 12}}) {
    Value* y = builder.Make(OpKind::kReshape, {x}, {{"shape", shape}});
    EXPECT_EQ(Values(RunOutput(graph, y, {Iota(Dtype::kF32, {2, 3, 4})})),
              Values(Iota(Dtype::kF32, {24})));
  }
}

TEST_F(Views, Transpose) {
  FakeImport import(graph, "Transpose", 13, {x});
  ASSERT_EQ(Outcome(import.With("perm", IntList{2, 0, 1})), "f32[4, n, 3]");
  const ReferenceTensor y = RunOutput(graph, import.outputs[0], {Iota(Dtype::kF32, {2, 3, 4})});
  EXPECT_EQ(y.reals[y.Position({3, 1, 2})], 12 + 8 + 3);
  FakeImport reversed(graph, "Transpose", 13, {x});
  EXPECT_EQ(Outcome(reversed), "f32[4, 3, n]");
  FakeImport twice(graph, "Transpose", 13, {x});
  EXPECT_EQ(Outcome(twice.With("perm", IntList{0, 0, 1})), "perm names axis 0 twice");
}

TEST_F(Views, SliceClampsAsOnnx) {
  EXPECT_EQ(Sliced({1}, {kEnd}, {2}, {1}), "f32[n, 3, 3]");
  EXPECT_EQ(Sliced({0}, {-1}, {0}, {1}), "f32[n - 1, 3, 4]");
  EXPECT_EQ(Sliced({-100, 5}, {100, 9}, {1, 2}, {1, 1}), "f32[n, 3, 0]");
  EXPECT_EQ(Sliced({0}, {kEnd}, {0}, {2}), "f32[floordiv(n + 1, 2), 3, 4]");
  EXPECT_EQ(Sliced({0, 0}, {1, 1}, {1, -2}, {1, 1}), "axes names axis 1 twice");
  EXPECT_EQ(Sliced({0}, {1}, {0}, {0}), "steps has a 0, expected any other value");
  ASSERT_EQ(Sliced({-1}, {-kEnd}, {2}, {-3}), "f32[n, 3, 2]");
  EXPECT_EQ(Values(RunOutput(graph, output, {Iota(Dtype::kF32, {1, 3, 4})})),
            (std::vector<double>{3, 0, 7, 4, 11, 8}));
  ASSERT_EQ(Sliced({-1}, {-kEnd - 1}, {0}, {-1}), "f32[n, 3, 4]");
  EXPECT_EQ(RunOutput(graph, output, {Iota(Dtype::kF32, {2, 3, 4})}).reals[0], 12);
}

TEST_F(Views, SliceTurnsNothingRound) {
  AddSymbolM();
  Value* rows = graph.AddInput("rows", {Dtype::kF32, {Sym("m"), 3}});
  for (const int64_t start : {int64_t{-1}, kEnd}) {
    FakeImport import(graph, "Slice", 13,
                      {rows, IntsConstant(graph, {start}), IntsConstant(graph, {-kEnd - 1}),
                       IntsConstant(graph, {0}), IntsConstant(graph, {-1})});
    ASSERT_TRUE(import.Run());
    const auto turned = [&](int64_t size) {
      return Values(RunOutput(graph, import.outputs[0],
                              {Iota(Dtype::kF32, {1, 3, 4}), Iota(Dtype::kF32, {size, 3})}));
    };
    EXPECT_EQ(turned(0), std::vector<double>());
    EXPECT_EQ(turned(2), (std::vector<double>{3, 4, 5, 0, 1, 2}));
  }
}

TEST_F(Views, SliceByASymbol) {
  AddSymbolM();
  Builder builder(graph);
  Value* end = builder.Make(OpKind::kSymbolicDims, {},
                            {{"values", Exprs{Sym("n")}}, {"scalar", int64_t{0}}});
  Value* table = graph.AddInput("table", {Dtype::kF32, {512, 2}});
  FakeImport import(graph, "Slice", 13, {table, IntsConstant(graph, {0}), end});
  EXPECT_EQ(Outcome(import), "f32[n, 2]");  // n <= 64
  Value* may_be_negative =
      builder.Make(OpKind::kSymbolicDims, {},
                   {{"values", Exprs{Sym("n") - Sym("m")}}, {"scalar", int64_t{0}}});
  FakeImport undecided(graph, "Slice", 13, {table, IntsConstant(graph, {0}), may_be_negative});
  EXPECT_NE(Outcome(undecided).find("which may be negative or not"), std::string::npos);
}

TEST_F(Views, Split) {
  FakeImport equal(graph, "Split", 11, {x}, 2);
  equal.unused_output = 0;
  ASSERT_TRUE(equal.With("axis", int64_t{-1}).Run());
  EXPECT_EQ(equal.outputs[0], nullptr);
  EXPECT_EQ(RunOutput(graph, equal.outputs[1], {Iota(Dtype::kF32, {1, 3, 4})}).reals,
            (std::vector<double>{2, 3, 6, 7, 10, 11}));
  FakeImport uneven(graph, "Split", 18, {x}, 2);
  uneven.With("axis", int64_t{1}).With("num_outputs", int64_t{2});
  EXPECT_EQ(Outcome(uneven), "f32[n, 2, 4]");
  EXPECT_EQ(uneven.outputs[1]->type.ToString(), "f32[n, 1, 4]");
  FakeImport odd(graph, "Split", 13, {x}, 2);
  EXPECT_EQ(Outcome(odd.With("axis", int64_t{1})), "3 elements do not divide into 2 equal parts");
  FakeImport sizes(graph, "Split", 13, {x, IntsConstant(graph, {1, 0, 3})}, 3);
  EXPECT_EQ(Outcome(sizes.With("axis", int64_t{2})), "f32[n, 3, 1]");
  EXPECT_EQ(sizes.outputs[1]->type.ToString(), "f32[n, 3, 0]");
  FakeImport wrong(graph, "Split", 13, {x, IntsConstant(graph, {1, 2})}, 2);
  EXPECT_EQ(Outcome(wrong.With("axis", int64_t{2})), "split adds up to 3, expected 4");
}

TEST_F(Views, ExpandAndConstantOfShape) {
  Value* row = graph.AddInput("row", {Dtype::kF32, {3, 1}});
  FakeImport import(graph, "Expand", 13, {row, IntsConstant(graph, {2, 1, 2})});
  ASSERT_EQ(Outcome(import), "f32[2, 3, 2]");
  EXPECT_EQ(
      RunOutput(graph, import.outputs[0], {Iota(Dtype::kF32, {1, 3, 4}), Iota(Dtype::kF32, {3, 1})})
          .reals,
      (std::vector<double>{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}));
  FakeImport fill(graph, "ConstantOfShape", 9, {IntsConstant(graph, {2, 0})});
  fill.WithTensor("value", TensorData::From<int64_t>(Dtype::kI32, {1}, {7}));
  EXPECT_EQ(Outcome(fill), "i32[2, 0]");
  FakeImport zeros(graph, "ConstantOfShape", 9, {IntsConstant(graph, {})});
  EXPECT_EQ(Outcome(zeros), "f32[]");
  FakeImport negative(graph, "ConstantOfShape", 9, {IntsConstant(graph, {-1})});
  EXPECT_EQ(Outcome(negative), "shape[0] is -1, expected 0 or more");
}

TEST_F(Views, DropoutIsTheIdentityAndItsMaskIsTrue) {
  FakeImport import(graph, "Dropout", 13, {x}, 2);
  ASSERT_EQ(Outcome(import), "f32[n, 3, 4]");
  EXPECT_EQ(import.outputs[1]->type.ToString(), "bool[n, 3, 4]");
  Builder builder(graph);
  FakeImport training(graph, "Dropout", 13, {x, nullptr, builder.Scalar(Dtype::kBool, 1)});
  EXPECT_EQ(Outcome(training), "training_mode is true, expected false");
}

TEST_F(Views, TileByNumbersAndBySymbols) {
  FakeImport import(graph, "Tile", 13, {x, IntsConstant(graph, {2, 1, 2})});
  ASSERT_EQ(Outcome(import), "f32[n*2, 3, 8]");
  const ReferenceTensor y = RunOutput(graph, import.outputs[0], {Iota(Dtype::kF32, {2, 3, 4})});
  EXPECT_EQ(y.reals[y.Position({3, 1, 6})], 12 + 4 + 2);
  Value* n = Builder(graph).Make(OpKind::kSymbolicDims, {},
                                 {{"values", Exprs{Sym("n")}}, {"scalar", int64_t{0}}});
  Value* row = graph.AddInput("row", {Dtype::kF32, {2}});
  FakeImport symbolic(graph, "Tile", 13, {row, n});
  ASSERT_EQ(Outcome(symbolic), "f32[n*2]");
  EXPECT_EQ(
      RunOutput(graph, symbolic.outputs[0], {Iota(Dtype::kF32, {2, 3, 4}), Iota(Dtype::kF32, {2})})
          .reals,
      (std::vector<double>{0, 1, 0, 1}));
}

TEST_F(Views, ConcatOfManyAndOfEmptyParts) {
  ValueList parts;
  std::vector<ReferenceTensor> inputs = {Iota(Dtype::kF32, {2, 3, 4})};
  std::vector<double> expected;
  for (int64_t i = 0; i < 7; ++i) {
    parts.push_back(graph.AddInput("p", {Dtype::kF32, {1, i == 3 ? 0 : i}}));
    inputs.push_back(ReferenceTensor(Dtype::kF32, {1, i == 3 ? 0 : i}));
    for (double& value : inputs.back().reals) expected.push_back(value = 10.0 * i);
  }
  FakeImport import(graph, "Concat", 13, parts);
  ASSERT_EQ(Outcome(import.With("axis", int64_t{-1})), "f32[1, 18]");
  EXPECT_EQ(RunOutput(graph, import.outputs[0], inputs).reals, expected);
  FakeImport wrong(graph, "Concat", 13, {x, parts[0]});
  EXPECT_EQ(Outcome(wrong), "cannot join f32[1, 0] to f32[n, 3, 4] along axis 0");
}

TEST_F(Views, ConcatAlongSymbols) {
  AddSymbolM();
  Value* y = graph.AddInput("y", {Dtype::kF32, {Sym("m"), 3, 4}});
  FakeImport import(graph, "Concat", 13, {x, y, x});
  ASSERT_EQ(Outcome(import), "f32[m + n*2, 3, 4]");
  for (int64_t m : {0, 2}) {
    const ReferenceTensor joined = RunOutput(
        graph, import.outputs[0], {Iota(Dtype::kF32, {1, 3, 4}), Iota(Dtype::kF32, {m, 3, 4})});
    EXPECT_EQ(joined.dims, (IntList{2 + m, 3, 4}));
  }
}

TEST_F(Views, PadWithAConstant) {
  ASSERT_EQ(Padded("constant", {0, 1, -1, 1, 0, 2}), "f32[n + 1, 4, 5]");
  const ReferenceTensor y = RunOutput(graph, output, {Iota(Dtype::kF32, {1, 3, 4})});
  EXPECT_EQ(y.dims, (IntList{2, 4, 5}));
  EXPECT_EQ((std::vector<double>(y.reals.begin() + 5, y.reals.begin() + 10)),
            (std::vector<double>{1, 2, 3, 0, 0}));
  EXPECT_EQ(Padded("constant", {0, 0, -3, 0, 0, -2}),
            "pads of axis 2 are -3 and -2, but it has 4 elements");
  FakeImport old(graph, "Pad", 10, {x});
  old.With("pads", IntList{0, 0, 0, 0, 0, 1})
      .With("value", -std::numeric_limits<double>::infinity());
  ASSERT_EQ(Outcome(old), "f32[n, 3, 5]");
  EXPECT_TRUE(
      std::isinf(RunOutput(graph, old.outputs[0], {Iota(Dtype::kF32, {1, 3, 4})}).reals[4]));
  FakeImport axes(graph, "Pad", 18,
                  {x, IntsConstant(graph, {1, 0}), nullptr, IntsConstant(graph, {-1})});
  EXPECT_EQ(Outcome(axes), "f32[n, 3, 5]");
}

TEST_F(Views, PadByRepeating) {
  Value* row = graph.AddInput("row", {Dtype::kF32, {3}});
  const std::vector<std::pair<std::string, std::vector<double>>> cases = {
      {"reflect", {1, 2, 1, 0, 1, 2, 1, 0, 1}},
      {"edge", {0, 0, 0, 0, 1, 2, 2, 2, 2}},
      {"wrap", {0, 1, 2, 0, 1, 2, 0, 1, 2}}};
  for (const auto& [mode, expected] : cases) {
    FakeImport import(graph, "Pad", 19, {row, IntsConstant(graph, {3, 3})});
    ASSERT_EQ(Outcome(import.With("mode", mode)), "f32[9]");
    EXPECT_EQ(
        RunOutput(graph, import.outputs[0], {Iota(Dtype::kF32, {1, 3, 4}), Iota(Dtype::kF32, {3})})
            .reals,
        expected)
        << mode;
  }
  ASSERT_EQ(Padded("reflect", {0, 2, 1, 0, 1, 3}), "f32[n, 6, 8]");
  RunOutput(graph, output, {Iota(Dtype::kF32, {2, 3, 4}), Iota(Dtype::kF32, {3})});
  ASSERT_EQ(Padded("edge", {2, 0, -1, 1, 0, 1}), "f32[n + 3, 3, 4]");
  EXPECT_EQ(Padded("reflect", {2, 0, 0, 0, 0, 0}),
            "pads of axis 0 are 2 and 0, which may be more than the axis's n elements can reflect");
  AddSymbolM();
  Value* maybe_empty = graph.AddInput("e", {Dtype::kF32, {Sym("m")}});
  FakeImport edge(graph, "Pad", 13, {maybe_empty, IntsConstant(graph, {1, 1})});
  EXPECT_EQ(Outcome(edge.With("mode", std::string("edge"))),
            "axis 0 has m elements, expected 1 or more in mode edge");
}

TEST_F(Views, Trilu) {
  Value* square = graph.AddInput("s", {Dtype::kI32, {3, 3}});
  const std::vector<std::tuple<int64_t, int64_t, std::vector<double>>> cases = {
      {1, 0, {1, 2, 3, 0, 5, 6, 0, 0, 9}},
      {1, 1, {0, 2, 3, 0, 0, 6, 0, 0, 0}},
      {0, -1, {0, 0, 0, 4, 0, 0, 7, 8, 0}},
      {0, kEnd, {1, 2, 3, 4, 5, 6, 7, 8, 9}},
      {1, kEnd, {0, 0, 0, 0, 0, 0, 0, 0, 0}}};
  for (const auto& [upper, k, expected] : cases) {
    FakeImport import(graph, "Trilu", 14, {square, IntScalar(graph, k)});
    ASSERT_TRUE(import.With("upper", upper).Run());
    EXPECT_EQ(Values(RunOutput(graph, import.outputs[0],
                               {Iota(Dtype::kF32, {1, 3, 4}),
                                Tensor(Dtype::kI32, {3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9})})),
              expected);
  }
}

}  // namespace
}  // namespace fusec
