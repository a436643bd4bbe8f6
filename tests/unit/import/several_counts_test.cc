// Graphs with several counts that depend on data: along two axes of a tensor, one after the other, and equal ones.
#include "tests/unit/import/import_fixture.h"

namespace fusec {
namespace {

using Numbers = std::vector<double>;
using Dims = std::vector<int64_t>;

ReferenceTensor Ints(std::vector<int64_t> values, Dtype dtype = Dtype::kI64) {
  const auto count = static_cast<int64_t>(values.size());
  return ReferenceTensor::FromData(TensorData::From<int64_t>(dtype, {count}, std::move(values)));
}
ReferenceTensor Bits(std::vector<int64_t> values) { return Ints(std::move(values), Dtype::kBool); }

class SeveralCounts : public Import {
 protected:
  static constexpr char kChosen[] =
      "left = Compress<axis = 0>(x, a)\n right = Compress<axis = 0>(x, b)\n";

  // The output of a model with the nodes `nodes`, which read `left` and `right`: the rows of x that the masks a and b choose.
  Result<ReferenceTensor> Run(const std::string& type, const std::string& nodes, Dims a, Dims b) {
    const auto model =
        Load("g (float[n, 2] x, bool[n] a, bool[n] b) => (" + type + " y) {\n" + kChosen +
             "axis = Constant<value_ints = [0]>()\n all = Constant<value_ints = [-1]>()\n" + nodes +
             "}");
    if (!model) return tl::unexpected<Error>(model.error());
    warnings_ = model->warnings;
    EXPECT_TRUE(Verify(*model->graph)) << Print(*model->graph);
    const ReferenceTensor x = F32({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
    const auto outputs = Interpret(*model->graph, {x, Bits(std::move(a)), Bits(std::move(b))});
    if (!outputs) return tl::unexpected<Error>(outputs.error());
    return outputs->front();
  }
  void Expect(const Result<ReferenceTensor>& y, const Dims& dims, const Numbers& values) {
    ASSERT_TRUE(y) << y.error().message;
    EXPECT_EQ(y->dims, dims);
    Numbers found;
    for (int64_t i = 0; i < y->element_count(); ++i) found.push_back(y->Real(i));
    EXPECT_EQ(found, values);
  }

  std::vector<std::string> warnings_;
};

constexpr char kProducts[] = "columns = Transpose(right)\n product = MatMul(left, columns)\n";

TEST_F(SeveralCounts, AreTwoAxesOfAnOutput) {
  const std::string nodes = std::string(kProducts) + "y = Identity(product)";
  Expect(Run("float[p, q]", nodes, {1, 0, 0, 1}, {0, 1, 1, 0}), {2, 2}, {11, 17, 53, 83});
  Expect(Run("float[p, q]", nodes, {0, 1, 0, 0}, {1, 1, 1, 0}), {1, 3}, {11, 25, 39});
  Expect(Run("float[p, q]", nodes, {1, 1, 0, 0}, {0, 0, 0, 0}), {2, 0}, {});
}

TEST_F(SeveralCounts, AreReducedOneByOneAndTogether) {
  const auto y = [&](const std::string& nodes) {
    return Run("float[k]", kProducts + nodes, {1, 0, 0, 1}, {0, 1, 1, 0});
  };
  Expect(y("y = ReduceMean<keepdims = 0>(product, axis)"), {2}, {32, 50});
  Expect(y("one = Constant<value_ints = [1]>()\n y = ReduceMax<keepdims = 0>(product, one)"), {2},
         {17, 83});
  Expect(y("both = Constant<value_ints = [0, 1]>()\n s = ReduceMean<keepdims = 0>(product, both)\n"
           "y = Reshape(s, all)"),
         {1}, {41});
}

TEST_F(SeveralCounts, AreOneAxisInRowMajorOrder) {
  const std::string nodes = std::string(kProducts) + "y = Reshape(product, all)";
  Expect(Run("float[k]", nodes, {1, 0, 0, 1}, {0, 1, 1, 0}), {4}, {11, 17, 53, 83});
  Expect(Run("float[k]", nodes, {0, 0, 0, 0}, {1, 1, 1, 1}), {0}, {});
  const std::string turned =
      "three = Constant<value_ints = [-1, 2, 1]>()\n split = Reshape(left, three)\n"
      "last = Transpose<perm = [1, 0, 2]>(split)\n y = Reshape(last, all)";
  Expect(Run("float[k]", turned, {1, 0, 1, 0}, {1, 1, 1, 1}), {4}, {1, 5, 2, 6});
}

TEST_F(SeveralCounts, AreRowsBehindEachOther) {
  const std::string nodes = "y = Concat<axis = 0>(left, x, right)";
  Expect(Run("float[k, 2]", nodes, {0, 0, 0, 1}, {0, 1, 0, 0}), {6, 2},
         {7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 3, 4});
  Expect(Run("float[k, 2]", "y = Concat<axis = 0>(right, left)", {0, 0, 0, 0}, {0, 0, 1, 0}),
         {1, 2}, {5, 6});
  const std::string sums =
      "c = Concat<axis = 0>(left, right)\n zero = Constant<value_int = 0>()\n"
      "y = CumSum<reverse = 1>(c, zero)";
  Expect(Run("float[k, 2]", sums, {1, 0, 0, 0}, {0, 1, 0, 1}), {3, 2}, {11, 14, 10, 12, 7, 8});
}

// Where values with rows of two masks are combined, the model states that both masks choose the same number of rows.
TEST_F(SeveralCounts, AreEqualWhereTheyMeet) {
  const std::string nodes = "y = Sub(left, right)";
  Expect(Run("float[k, 2]", nodes, {0, 1, 0, 1}, {1, 0, 1, 0}), {2, 2}, {2, 2, 2, 2});
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_EQ(warnings_[0].find("compiled for run_time_count_1=run_time_count_0 only: "), 0u)
      << warnings_[0];
  for (const Dims& other : {Dims{1, 0, 0, 0}, Dims{1, 1, 0, 1}, Dims{0, 0, 0, 0}}) {
    EXPECT_FALSE(Run("float[k, 2]", nodes, {0, 1, 0, 1}, other)) << other[0] << other[1];
  }
}

TEST_F(SeveralCounts, AreADimThatTheyMeet) {
  const std::string nodes = "y = Sub(left, x)";
  Expect(Run("float[n, 2]", nodes, {1, 1, 1, 1}, {0, 0, 0, 0}), {4, 2}, {0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_FALSE(Run("float[n, 2]", nodes, {1, 0, 1, 1}, {0, 0, 0, 0}));
}

class SizesOfData : public SeveralCounts {
 protected:
  // All outputs of a model.
  Result<std::vector<ReferenceTensor>> Outputs(const std::string& graph,
                                               ArrayRef<ReferenceTensor> inputs) {
    const auto model = Load(graph);
    if (!model) return tl::unexpected<Error>(Error{ErrorKind::kModel, ErrorOf(model)});
    EXPECT_TRUE(Verify(*model->graph)) << Print(*model->graph);
    return Interpret(*model->graph, inputs);
  }
};

TEST_F(SizesOfData, TopOfAsManyAsTheAxisHas) {
  const std::string graph =
      "g (float[2, 3] x, int64[1] k) => (float[2, m] y) { y, at = TopK(x, k) }";
  const ReferenceTensor x = F32({2, 3}, {1, 3, 2, 6, 4, 5});
  const auto top = [&](int64_t k) -> Result<ReferenceTensor> {
    const auto y = Outputs(graph, {x, Ints({k})});
    if (!y) return tl::unexpected<Error>(y.error());
    return y->front();
  };
  Expect(top(2), {2, 2}, {3, 2, 6, 5});
  Expect(top(0), {2, 0}, {});
  Expect(top(3), {2, 3}, {3, 2, 1, 6, 5, 4});
  EXPECT_FALSE(top(4));
  EXPECT_FALSE(top(-1));
}

// Positions after those in a cache.
TEST_F(SizesOfData, RangesThatEndAKnownLengthBehindTheirStart) {
  const std::string graph = R"(g (float[batch, seq] x, int64 past) => (int64[seq] y) {
    shape = Shape<start = 1>(x)
    seq = Squeeze(shape)
    end = Add(past, seq)
    one = Constant<value_int = 1>()
    y = Range(past, end, one)
  })";
  const auto model = Load(graph);
  ASSERT_TRUE(model) << ErrorOf(model);
  EXPECT_TRUE(model->graph->run_time_sizes.empty());
  const auto past = ReferenceTensor::FromData(TensorData::From<int64_t>(Dtype::kI64, {}, {7}));
  const auto answer = Interpret(*model->graph, {F32({1, 3}, {0, 0, 0}), past});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->front().ints, (Dims{7, 8, 9}));
}

TEST_F(SizesOfData, RangesBetweenDataWithBounds) {
  const auto range = [&](int64_t from, int64_t to, const std::string& ends) {
    const std::string graph = R"(g (int64[1] from, int64[1] to) => (int64[k] y) {
      zero = Constant<value_int = 0>()
      nine = Constant<value_int = 9>()
      two = Constant<value_int = 2>()
      down = Constant<value_int = -3>()
      low = Max(from, zero)
      high = Min(to, nine)
      start = Squeeze(low)
      limit = Squeeze(high)
      )" + ends + "}";
    const auto y = Outputs(graph, {Ints({from}), Ints({to})});
    EXPECT_TRUE(y) << y.error().message;
    return y ? y->front().ints : Dims{-1};
  };
  EXPECT_EQ(range(3, 8, "y = Range(start, limit, two)"), (Dims{3, 5, 7}));
  EXPECT_EQ(range(-5, 99, "y = Range(start, limit, two)"), (Dims{0, 2, 4, 6, 8}));
  EXPECT_EQ(range(5, 5, "y = Range(start, limit, two)"), Dims{});
  EXPECT_EQ(range(1, 8, "y = Range(limit, start, down)"), (Dims{8, 5, 2}));
  EXPECT_EQ(range(0, 9, "y = Range(limit, start, down)"), (Dims{9, 6, 3}));
  const auto refused = Load(R"(g (int64 start) => (int64[k] y) {
    nine = Constant<value_int = 9>()
    one = Constant<value_int = 1>()
    ["r"] y = Range(start, nine, one)
  })");
  EXPECT_EQ(ErrorOf(refused),
            "m.onnxtxt: node \"r\" (Range): start is computed from run-time data, which fusec does "
            "not support");
}

TEST_F(SizesOfData, DifferentRows) {
  const std::string outputs = " => (float[k, 2] y, int64[k] first, int64[n] of, int64[k] counts)";
  const ReferenceTensor x = F32({5, 2}, {2, 1, 1, 3, 2, 0, 1, 3, 2, 1});
  auto y = Outputs(
      "g (float[n, 2] x)" + outputs + " { y, first, of, counts = Unique<axis = 0>(x) }", {x});
  ASSERT_TRUE(y) << y.error().message;
  Expect((*y)[0], {3, 2}, {1, 3, 2, 0, 2, 1});
  EXPECT_EQ((*y)[1].ints, (Dims{1, 2, 0}));
  EXPECT_EQ((*y)[2].ints, (Dims{2, 0, 1, 0, 2}));
  EXPECT_EQ((*y)[3].ints, (Dims{2, 1, 2}));
  y = Outputs(
      "g (float[n, 2] x)" + outputs + " { y, first, of, counts = Unique<axis = 0, sorted = 0>(x) }",
      {x});
  ASSERT_TRUE(y) << y.error().message;
  Expect((*y)[0], {3, 2}, {2, 1, 1, 3, 2, 0});
  EXPECT_EQ((*y)[2].ints, (Dims{0, 1, 2, 1, 0}));
}

TEST_F(SizesOfData, DifferentParts) {
  const auto y = Outputs("g (int64[2, 4, 1] x) => (int64[2, k, 1] y) { y = Unique<axis = -2>(x) }",
                         {ReferenceTensor::FromData(TensorData::From<int64_t>(
                             Dtype::kI64, {2, 4, 1}, {3, 1, 3, 1, 0, 5, 0, 4}))});
  ASSERT_TRUE(y) << y.error().message;
  EXPECT_EQ(y->front().dims, (Dims{2, 3, 1}));
  EXPECT_EQ(y->front().ints, (Dims{1, 1, 3, 4, 5, 0}));
}

TEST_F(SizesOfData, DifferentPartsOfAFreeSizeAreRefused) {
  EXPECT_EQ(
      ErrorOf(Load("g (float[n, m] x) => (float[k, m] y) { [\"u\"] y = Unique<axis = 0>(x) }")),
      "m.onnxtxt: node \"u\" (Unique): x is f32[n, m], whose parts along axis 0 are sorted by "
      "one element after the other: fusec must know how many they have");
}

// A slice in a loop's body whose end is data, of rows whose number is data.
TEST_F(SeveralCounts, AreMadeInALoopOverCountedRows) {
  const auto model = Load(R"(g (float[n, 2] x, bool[n] a, int64[3] ends) => (float[m, 2] y)
<int64 trips = {3}, int64[1] zero = {0}, bool yes = {1}> {
    chosen = Compress<axis = 0>(x, a)
    y = Loop(trips, yes, chosen) <body = step (int64 i, bool on, float[p, 2] before) => (bool goes, float[p, 2] after) {
      place = Unsqueeze(i, zero)
      end = Gather(ends, place)
      some = Slice(before, zero, end, zero)
      sum = ReduceSum<keepdims = 1>(some, zero)
      after = Add(before, sum)
      goes = Identity(on)
    }>
  })");
  ASSERT_TRUE(model) << ErrorOf(model);
  const auto outputs = Interpret(
      *model->graph, {F32({3, 2}, {1, 2, 3, 4, 5, 6}), Bits({1, 0, 1}), Ints({1, 2, 0})});
  ASSERT_TRUE(outputs) << outputs.error().message;
  Expect(outputs->front(), {2, 2}, {10, 16, 14, 20});
}

}  // namespace
}  // namespace fusec
