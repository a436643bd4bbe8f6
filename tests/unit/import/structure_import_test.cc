// Structures that the importer resolves before it builds the graph: functions, sequences, loops, branches, constants of narrow types, and
// computed sizes.
#include "tests/unit/import/import_fixture.h"

namespace fusec {
namespace {

using Numbers = std::vector<double>;

class ImportStructure : public Import {
 protected:
  // The answer of a model to `inputs`, or the error.
  Numbers AnswerOf(const std::string& graph, ArrayRef<ReferenceTensor> inputs, int opset = 20) {
    const auto model =
        Load(graph, {}, "ir_version: 10, opset_import: [\"\": " + std::to_string(opset) + "]");
    EXPECT_TRUE(model) << ErrorOf(model);
    return model ? Answer(*model->graph, inputs) : Numbers{};
  }
  std::string Refusal(const std::string& graph) { return ErrorOf(Load(graph)); }
};

TEST_F(ImportStructure, OpsThatOnnxDefinesByOthers) {
  EXPECT_EQ(AnswerOf(R"(g (float[4] x) => (float[2] y) {
    size = Constant<value = int64[1] {2}>()
    y = CenterCropPad<axes = [0]>(x, size)
  })",
                     {F32({4}, {1, 2, 3, 4})}),
            (Numbers{2, 3}));
  EXPECT_NEAR(AnswerOf(R"(g (float[1, 2] x, int64[1] label) => (float loss) {
    loss = SoftmaxCrossEntropyLoss(x, label)
  })",
                       {F32({1, 2}, {0, 0}), ReferenceTensor::FromData(
                                                 TensorData::From<int64_t>(Dtype::kI64, {1}, {1}))})
                  .at(0),
              0.6931, 1e-4);
}

TEST_F(ImportStructure, ProblemsInsideABodyNameTheNode) {
  EXPECT_EQ(Refusal(R"(g (float[4] x, int64[1] size) => (float[n] y) {
    [crop] y = CenterCropPad<axes = [0]>(x, size)
  })")
                .substr(0, 46),
            "m.onnxtxt: node \"crop\" (Pad): pads is computed");
}

TEST_F(ImportStructure, SequencesCarryTensors) {
  EXPECT_EQ(AnswerOf(R"(g (float[n, 4] x) => (float[n, 3] y) {
    lengths = Constant<value = int64[2] {1, 3}>()
    parts = SplitToSequence<axis = 1>(x, lengths)
    first = Constant<value_int = 0>()
    last = Constant<value_int = -1>()
    a = SequenceAt(parts, first)
    b = SequenceAt(parts, last)
    y = Add(a, b)
  })",
                     {F32({1, 4}, {10, 1, 2, 3})}),
            (Numbers{11, 12, 13}));
  EXPECT_EQ(AnswerOf(R"(g (float[2] x, float[2] z) => (float[2, 2] y) {
    s = SequenceConstruct(x, z)
    t = SequenceMap(s) <body = b (float[2] e) => (float[2] d) { d = Add(e, x) }>
    y = ConcatFromSequence<axis = 0, new_axis = 1>(t)
  })",
                     {F32({2}, {1, 2}), F32({2}, {3, 4})}),
            (Numbers{2, 4, 4, 6}));
}

TEST_F(ImportStructure, SequencesAreNoTensors) {
  EXPECT_EQ(Refusal("g (float[2] x) => (float[2] y) { s = SequenceConstruct(x)\n y = Relu(s) }"),
            "m.onnxtxt: node producing \"y\" (Relu): reads the sequence \"s\", expected a tensor");
  EXPECT_EQ(Refusal("g (float[2] x) => (float[2] s) { s = SequenceConstruct(x) }"),
            "m.onnxtxt: output \"s\" is a sequence, expected a tensor");
  EXPECT_EQ(Refusal(R"(g (float[2] x) => (float[2] y) {
    s = SequenceConstruct(x)
    two = Constant<value_int = 2>()
    y = SequenceAt(s, two)
  })"),
            "m.onnxtxt: node producing \"y\" (SequenceAt): position is 2, but the sequence has 1 "
            "tensors");
}

// s doubles in each of three iterations; each iteration appends its value.
constexpr char kLoop[] = R"(g (float[2] x) => (float[2] last, float[3, 2] all) {
    trips = Constant<value_int = 3>()
    last, all = Loop(trips, , x) <body = b (int64 i, bool c, float[2] s) => (bool on, float[2] t, float[2] seen) {
      on = Identity(c)
      t = Add(s, s)
      seen = Identity(t)
    }>
  })";

TEST_F(ImportStructure, LoopsOfKnownLengthAreUnrolled) {
  const auto model = Load(kLoop);
  ASSERT_TRUE(model) << ErrorOf(model);
  const auto outputs = Interpret(*model->graph, std::vector{F32({2}, {1, 3})});
  ASSERT_TRUE(outputs);
  EXPECT_EQ((*outputs)[0].reals, (Numbers{8, 24}));
  EXPECT_EQ((*outputs)[1].reals, (Numbers{2, 6, 4, 12, 8, 24}));
}

// Bags between offsets, as dynamo writes embedding_bag, in a loop that runs while a counter is below a number. For known sizes the exporter
// writes `true` instead of the first comparison.
TEST_F(ImportStructure, LoopsOverBagsEndWhereTheirConditionSays) {
  EXPECT_EQ(AnswerOf(R"(g (float[5, 1] rows, int64[4] offsets) => (float[n, 1] sums)
    <bool begins = {1}, int64 zero = {0}, int64 one = {1}, int64[1] ones = {1}, int64[1] axis = {0}, int64[1] flat = {-1}> {
    size = Size(offsets)
    count = Sub(size, one)
    empty = SequenceEmpty()
    bags, last = Loop(, begins, empty, zero) <
        body = b (int64 trip, bool on, seq(float[1, 1]) before, int64 i) => (bool goes, seq(float[1, 1]) bags, int64 next) {
      at = Reshape(i, flat)
      behind = Add(at, ones)
      start = Slice(offsets, at, behind)
      two = Add(behind, ones)
      end = Slice(offsets, behind, two)
      part = Slice(rows, start, end)
      sum = ReduceSum(part, axis)
      bags = SequenceInsert(before, sum)
      next = Add(i, one)
      goes_on = Less(next, count)
      goes = Identity(goes_on)
    }>
    sums = ConcatFromSequence<axis = 0>(bags)
  })",
                     {F32({5, 1}, {1, 2, 3, 4, 5}), I64({4}, {0, 2, 2, 5})}),
            (Numbers{3, 0, 12}));
}

TEST_F(ImportStructure, LoopsOfUnknownLengthAreRefused) {
  EXPECT_EQ(
      Refusal(R"(g (float[2] x, int64 trips) => (float[2] y) {
    [loop] y = Loop(trips, , x) <body = b (int64 i, bool c, float[2] s) => (bool on, float[2] t) {
      on = Identity(c)
      t = Add(s, s)
    }>
  })"),
      "m.onnxtxt: node \"loop\" (Loop): its number of trips is computed from run-time data, which "
      "fusec does not support");
}

TEST_F(ImportStructure, ScansAreUnrolled) {
  EXPECT_EQ(AnswerOf(R"(g (float[2] zero, float[3, 2] x) => (float[2] sum) {
    sum, sums = Scan(zero, x) <num_scan_inputs = 1, body = b (float[2] s, float[2] e) => (float[2] t, float[2] seen) {
      t = Add(s, e)
      seen = Identity(t)
    }>
  })",
                     {F32({2}, {0, 0}), F32({3, 2}, {1, 2, 3, 4, 5, 6})}),
            (Numbers{9, 12}));
}

TEST_F(ImportStructure, BothBranchesOfARunTimeCondition) {
  const std::string graph = R"(g (bool c, float[2] x) => (float[2] y) {
    y = If(c) <then_branch = t () => (float[2] a) { a = Neg(x) }, else_branch = e () => (float[2] b) { b = Exp(x) }>
  })";
  const auto of = [&](int64_t condition) {
    return AnswerOf(
        graph, {ReferenceTensor::FromData(TensorData::From<int64_t>(Dtype::kBool, {}, {condition})),
                F32({2}, {0, 0})});
  };
  EXPECT_EQ(of(1), (Numbers{0, 0}));
  EXPECT_EQ(of(0), (Numbers{1, 1}));
}

// As TorchScript writes squeeze(0) of a dim that it considers free.
TEST_F(ImportStructure, ABranchForASizeOf1IsNotTaken) {
  const auto model = Load(R"(g (float[batch, 2] x) => (float[batch, 2] y) {
    shape = Shape(x)
    zero = Constant<value_int = 0>()
    one = Constant<value_int = 1>()
    axes = Constant<value_ints = [0]>()
    rows = Gather(shape, zero)
    alone = Equal(rows, one)
    y = If(alone) <then_branch = t () => (float[2] a) { a = Squeeze(x, axes) },
                   else_branch = e () => (float[batch, 2] b) { b = Identity(x) }>
  })");
  ASSERT_TRUE(model) << ErrorOf(model);
  EXPECT_EQ(model->graph->symbols, (std::vector<DimSymbol>{{"batch", 2, 65536}}));
  ASSERT_EQ(model->warnings.size(), 1u);
}

TEST_F(ImportStructure, ConstantsOfNarrowTypes) {
  // Two elements of 4 bits to a byte, the first in its low half: 7 and -8 are 0x87.
  EXPECT_EQ(AnswerOf(R"(g (float[3] x) => (float[3] y) <int4[3] w = {135, 3}, float scale = {0.5}> {
    d = DequantizeLinear(w, scale)
    y = Add(x, d)
  })",
                     {F32({3}, {0, 0, 0})}, 21),
            (Numbers{3.5, -4, 1.5}));
  EXPECT_EQ(Refusal("g (int4[3] x) => (int4[3] y) { y = Identity(x) }").substr(0, 55),
            "m.onnxtxt: input \"x\" has element type int4, which fusec");
}

TEST_F(ImportStructure, ShapesThroughFloatsAndConstantOps) {
  // A Range up to a size that was converted to a float and back, and a Tile by repeats that a OneHot makes from a size.
  EXPECT_EQ(AnswerOf(R"(g (float[batch] x) => (int64[batch] y) {
    shape = Shape(x)
    real = Cast<to = 1>(shape)
    zero = Constant<value_float = 0.0>()
    one = Constant<value_float = 1.0>()
    axes = Constant<value_ints = [0]>()
    limit = Squeeze(real, axes)
    count = Cast<to = 7>(limit)
    start = Constant<value_int = 0>()
    step = Constant<value_int = 1>()
    y = Range(start, count, step)
  })",
                     {F32({3}, {0, 0, 0})}),
            (Numbers{0, 1, 2}));
  EXPECT_EQ(AnswerOf(R"(g (float[batch, 2] x) => (float[batch, 4] y) {
    shape = Shape(x)
    places = Constant<value_ints = [1]>()
    width = Gather(shape, places)
    ones = Constant<value_ints = [1]>()
    values = Concat<axis = 0>(ones, width)
    place = Constant<value_int = 1>()
    depth = Constant<value_int = 2>()
    repeats = OneHot(place, depth, values)
    y = Tile(x, repeats)
  })",
                     {F32({1, 2}, {5, 6})}),
            (Numbers{5, 6, 5, 6}));
}

TEST_F(ImportStructure, PlacesOfAMask) {
  // The pairs of an interaction: a mask that is expanded to the batch.
  EXPECT_EQ(AnswerOf(R"(g (float[batch, 2, 2] x) => (float[n] y) <bool[2, 2] mask = {0, 1, 1, 0}> {
    shape = Shape(x)
    wide = Expand(mask, shape)
    places = NonZero(wide)
    rows = Transpose(places)
    y = GatherND(x, rows)
  })",
                     {F32({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8})}),
            (Numbers{2, 3, 6, 7}));
}

TEST_F(ImportStructure, ADimThatMustDivide) {
  const auto model = Load(R"(g (float[lengths] x) => (float[3, n] y) {
    shape = Shape(x)
    three = Constant<value_ints = [3]>()
    each = Div(shape, three)
    wanted = Concat<axis = 0>(three, each)
    y = Reshape(x, wanted)
  })");
  ASSERT_TRUE(model) << ErrorOf(model);
  EXPECT_EQ(model->graph->inputs[0]->type.ToString(), "f32[lengths_per_3*3]");
}

const auto Bools = [](std::vector<int64_t> values) {
  const auto count = static_cast<int64_t>(values.size());
  return ReferenceTensor::FromData(
      TensorData::From<int64_t>(Dtype::kBool, {count}, std::move(values)));
};
const auto Ints = [](std::vector<int64_t> values) {
  const auto count = static_cast<int64_t>(values.size());
  return ReferenceTensor::FromData(
      TensorData::From<int64_t>(Dtype::kI64, {count}, std::move(values)));
};

TEST_F(ImportStructure, PlacesOfRunTimeData) {
  // x[mask] = 2 * x[mask], for a mask that chooses no element, some, and all.
  const std::string graph = R"(g (float[n] x, bool[n] mask) => (float[n] y) {
    places = NonZero(mask)
    rows = Transpose<perm = [1, 0]>(places)
    chosen = GatherND(x, rows)
    doubled = Add(chosen, chosen)
    y = ScatterND(x, rows, doubled)
  })";
  const ReferenceTensor x = F32({4}, {1, 2, 3, 4});
  EXPECT_EQ(AnswerOf(graph, {x, Bools({0, 0, 0, 0})}), (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(AnswerOf(graph, {x, Bools({0, 1, 0, 1})}), (Numbers{1, 4, 3, 8}));
  EXPECT_EQ(AnswerOf(graph, {x, Bools({1, 1, 1, 1})}), (Numbers{2, 4, 6, 8}));
}

TEST_F(ImportStructure, PlacesOfAMaskThatIsExpanded) {
  // Rows that a mask chooses, whose number stays the same when they are reshaped back.
  EXPECT_EQ(AnswerOf(R"(g (float[n, 2] x, bool[n] mask) => (float[1, 2] y) {
    one = Constant<value_ints = [1]>()
    column = Unsqueeze(mask, one)
    shape = Shape(x)
    wide = Expand(column, shape)
    places = NonZero(wide)
    tuples = Transpose<perm = [1, 0]>(places)
    chosen = GatherND(x, tuples)
    row = Constant<value_ints = [-1, 2]>()
    rows = Reshape(chosen, row)
    zero = Constant<value_ints = [0]>()
    y = ReduceMax(rows, zero)
  })",
                     {F32({3, 2}, {-1, -2, -3, -4, 5, 6}), Bools({1, 1, 0})}),
            (Numbers{-1, -2}));
}

TEST_F(ImportStructure, RowsBehindACountAreNeverLookedUp) {
  // The first id is out of range, but its row is not chosen.
  EXPECT_EQ(AnswerOf(R"(g (int64[n] ids) => (float y) <float[3] table = {1, 2, 4}> {
    zero = Constant<value_int = 0>()
    is_id = GreaterOrEqual(ids, zero)
    known = Compress(ids, is_id)
    rows = Gather(table, known)
    y = ReduceSum<keepdims = 0>(rows)
  })",
                     {Ints({-9, 2, -9, 1})}),
            (Numbers{6}));
}

TEST_F(ImportStructure, FoldsEndAtTheCount) {
  const auto fold = [&](const std::string& op) {
    return AnswerOf(R"(g (float[n] x, bool[n] mask) => (float y) {
      rows = Compress<axis = 0>(x, mask)
      y = )" + op + R"(<keepdims = 0>(rows)
    })",
                    {F32({4}, {-9, -2, 9, -4}), Bools({0, 1, 0, 1})});
  };
  EXPECT_EQ(fold("ReduceSum"), (Numbers{-6}));
  EXPECT_EQ(fold("ReduceMean"), (Numbers{-3}));
  EXPECT_EQ(fold("ReduceProd"), (Numbers{8}));
  EXPECT_EQ(fold("ReduceMax"), (Numbers{-2}));
  EXPECT_EQ(fold("ReduceMin"), (Numbers{-4}));
  EXPECT_EQ(fold("ReduceL1"), (Numbers{6}));
}

TEST_F(ImportStructure, SortedRowsAndTheirInverse) {
  EXPECT_EQ(AnswerOf(R"(g (float[n] x, bool[n] mask) => (float[n] y) {
    places = NonZero(mask)
    tuples = Transpose<perm = [1, 0]>(places)
    rows = GatherND(x, tuples)
    size = Shape(rows)
    sorted, order = TopK(rows, size)
    zero = Constant<value_int = 0>()
    one = Constant<value_int = 1>()
    count = Size(rows)
    numbers = Range(zero, count, one)
    zeros = ConstantOfShape<value = int64[1] {0}>(size)
    inverse = ScatterElements(zeros, order, numbers)
    same = Gather(sorted, inverse)
    y = ScatterND<reduction = "add">(x, tuples, same)
  })",
                     {F32({4}, {1, 2, 3, 4}), Bools({0, 1, 1, 0})}),
            (Numbers{1, 4, 6, 4}));
}

TEST_F(ImportStructure, TheSumOfAMaskIsItsCount) {
  // As torch.export writes x[mask] = 7: the value is expanded to as many elements as the sum of the mask.
  EXPECT_EQ(AnswerOf(R"(g (float[n] x, bool[n] mask) => (float[n] y) <float seven = {7}> {
    places = NonZero(mask)
    tuples = Transpose<perm = [1, 0]>(places)
    bits = Cast<to = 7>(mask)
    count = ReduceSum(bits)
    values = Expand(seven, count)
    y = ScatterND(x, tuples, values)
  })",
                     {F32({3}, {1, 2, 3}), Bools({0, 1, 0})}),
            (Numbers{1, 7, 3}));
}

TEST_F(ImportStructure, UpdatesOfAllRowsAreScatteredRowByRow) {
  // A rating matrix is filled in this way; of equal ids, the last one wins.
  const std::string graph =
      R"(g (int64[n, 3] ids, float[n, 3] ratings, float[n, 4] none) => (float[n, 4] y) {
    shape = Shape(ids)
    zero = Constant<value_int = 0>()
    one = Constant<value_int = 1>()
    count = Gather(shape, zero)
    numbers = Range(zero, count, one)
    last = Constant<value_ints = [-1]>()
    column = Unsqueeze(numbers, last)
    same_rows = Expand(column, shape)
    flat_rows = Reshape(same_rows, last)
    flat_ids = Reshape(ids, last)
    rows = Unsqueeze(flat_rows, last)
    columns = Unsqueeze(flat_ids, last)
    places = Concat<axis = 1>(rows, columns)
    flat_ratings = Reshape(ratings, last)
    y = ScatterND(none, places, flat_ratings)
  })";
  const auto model = Load(graph);
  ASSERT_TRUE(model) << ErrorOf(model);
  EXPECT_EQ(model->graph->outputs[0]->producer->kind, OpKind::kScatterElements);
  const auto ids = ReferenceTensor::FromData(
      TensorData::From<int64_t>(Dtype::kI64, {2, 3}, {1, 3, 1, 0, 2, -1}));
  EXPECT_EQ(Answer(*model->graph,
                   {ids, F32({2, 3}, {1, 2, 3, 4, 5, 6}), F32({2, 4}, {0, 0, 0, 9, 0, 9, 0, 0})}),
            (Numbers{0, 3, 0, 2, 4, 9, 5, 6}));
}

// A jagged tensor: the lengths say where its parts begin.
constexpr char kJagged[] =
    R"(g (float[values, 1] x, int64[2] lengths, int64[1] at) => (float[1, 1] y) {
  first, second = Split<axis = 0>(x, lengths)
  doubled = Add(first, first)
  y = Gather(doubled, at)
})";

TEST_F(ImportStructure, LookUpsInAPartEndAtItsLength) {
  const ReferenceTensor x = F32({3, 1}, {4, 5, 6});
  EXPECT_EQ(AnswerOf(kJagged, {x, Ints({2, 1}), Ints({1})}), (Numbers{10}));
  EXPECT_EQ(AnswerOf(kJagged, {x, Ints({2, 1}), Ints({-2})}), (Numbers{8}));
  EXPECT_EQ(AnswerOf(kJagged, {x, Ints({2, 1}), Ints({2})}), Numbers{});  // an index error
}

TEST_F(ImportStructure, CountsAreRefusedWhereTheyMatter) {
  EXPECT_EQ(
      Refusal(R"(g (float[n] x, bool[n] mask) => (float[1] y) {
    rows = Compress(x, mask)
    zero = Constant<value_ints = [0]>()
    two = Constant<value_ints = [2]>()
    all = Tile(rows, two)
    y = ReduceSum(all, zero)
  })"),
      "m.onnxtxt: node \"all\" (tile) reads a tensor whose size is computed from run-time "
      "data, which fusec supports only in lookups, scatters, reductions, concatenations, views, "
      "elementwise ops and bags with explicit ends");
}

TEST_F(ImportStructure, TheSizeOfAPartIsItsLength) {
  const auto lengths =
      ReferenceTensor::FromData(TensorData::From<int64_t>(Dtype::kI64, {2}, {1, 2}));
  EXPECT_EQ(AnswerOf(R"(g (float[values] x, int64[2] lengths) => (int64 y) {
    first, second = Split<axis = 0>(x, lengths)
    y = Size(second)
  })",
                     {F32({3}, {4, 5, 6}), lengths}),
            (Numbers{2}));
}

}  // namespace
}  // namespace fusec
