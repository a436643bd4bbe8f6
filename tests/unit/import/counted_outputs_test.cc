// Outputs whose size depends on data, and the ops that make such sizes.
#include <cmath>
#include <cstdint>

#include "tests/unit/import/import_fixture.h"

namespace fusec {
namespace {

using Numbers = std::vector<double>;
using Dims = std::vector<int64_t>;

class CountedOutputs : public Import {
 protected:
  // The outputs of a model for `inputs`, or none and a failure.
  std::vector<ReferenceTensor> Run(const std::string& graph, ArrayRef<ReferenceTensor> inputs,
                                   int opset = 26) {
    const auto model =
        Load(graph, {}, "ir_version: 10, opset_import: [\"\": " + std::to_string(opset) + "]");
    EXPECT_TRUE(model) << ErrorOf(model);
    if (!model) return {};
    EXPECT_TRUE(Verify(*model->graph)) << Print(*model->graph);
    const auto outputs = Interpret(*model->graph, inputs);
    EXPECT_TRUE(outputs) << outputs.error().message;
    return outputs ? *outputs : std::vector<ReferenceTensor>{};
  }
  static Numbers Values(const ReferenceTensor& tensor) {
    Numbers values;
    for (int64_t i = 0; i < tensor.element_count(); ++i) values.push_back(tensor.Real(i));
    return values;
  }
  static ReferenceTensor Ints(std::vector<int64_t> values, Dtype dtype = Dtype::kI64) {
    const auto count = static_cast<int64_t>(values.size());
    return ReferenceTensor::FromData(TensorData::From<int64_t>(dtype, {count}, std::move(values)));
  }
};

TEST_F(CountedOutputs, RowsThatAMaskChooses) {
  const std::string graph =
      "g (float[n, 2] x, bool[n] mask) => (float[k, 2] y) { y = Compress<axis = 0>(x, mask) }";
  const ReferenceTensor x = F32({3, 2}, {1, 2, 3, 4, 5, 6});
  auto y = Run(graph, {x, Ints({1, 0, 1}, Dtype::kBool)});
  ASSERT_EQ(y.size(), 1u);
  EXPECT_EQ(y[0].dims, (Dims{2, 2}));
  EXPECT_EQ(y[0].reals, (Numbers{1, 2, 5, 6}));
  y = Run(graph, {x, Ints({0, 0, 0}, Dtype::kBool)});
  EXPECT_EQ(y[0].dims, (Dims{0, 2}));
  EXPECT_TRUE(y[0].reals.empty());
}

TEST_F(CountedOutputs, PlacesAreDense) {
  const std::string graph = "g (float[n, 3] x) => (int64[2, k] y) { y = NonZero(x) }";
  auto y = Run(graph, {F32({2, 3}, {0, 1, 0, 2, 0, 3})});
  ASSERT_EQ(y.size(), 1u);
  EXPECT_EQ(y[0].dims, (Dims{2, 3}));
  EXPECT_EQ(y[0].ints, (Dims{0, 1, 1, 1, 0, 2}));
  y = Run(graph, {F32({2, 3}, {0, 0, 0, 0, 0, 0})});
  EXPECT_EQ(y[0].dims, (Dims{2, 0}));
}

TEST_F(CountedOutputs, SeveralOfSeveralSizes) {
  const auto y =
      Run(R"(g (float[n] x, int64[2] lengths) => (float[a] first, float[n] twice, float[b] second) {
    first, part = Split<axis = 0>(x, lengths)
    second = Neg(part)
    twice = Add(x, x)
  })",
          {F32({4}, {1, 2, 3, 4}), Ints({3, 1})});
  ASSERT_EQ(y.size(), 3u);
  EXPECT_EQ(y[0].reals, (Numbers{1, 2, 3}));
  EXPECT_EQ(y[1].reals, (Numbers{2, 4, 6, 8}));
  EXPECT_EQ(y[2].reals, (Numbers{-4}));
}

TEST_F(CountedOutputs, RangesWithALimitOfData) {
  const std::string graph = R"(g (int64[n] x) => (int64[k] y) {
    ten = Constant<value_int = 10>()
    one = Constant<value_int = 1>()
    four = Constant<value_int = 4>()
    most = ReduceMax<keepdims = 0>(x)
    limit = Min(most, ten)
    y = Range(one, limit, four)
  })";
  EXPECT_EQ(Run(graph, {Ints({3, 7})})[0].ints, (Dims{1, 5}));
  EXPECT_EQ(Run(graph, {Ints({3, 99})})[0].ints, (Dims{1, 5, 9}));
  EXPECT_EQ(Run(graph, {Ints({-3, -99})})[0].dims, (Dims{0}));
  EXPECT_EQ(Run(graph, {Ints({1, 0})})[0].dims, (Dims{0}));
  const auto refused = Load(R"(g (int64 limit) => (int64[k] y) {
    zero = Constant<value_int = 0>()
    one = Constant<value_int = 1>()
    ["r"] y = Range(zero, limit, one)
  })");
  EXPECT_EQ(ErrorOf(refused),
            "m.onnxtxt: node \"r\" (Range): limit is computed from run-time data, which fusec does "
            "not support");
}

// As NumPy slices: negative bounds count from the end, and bounds are clamped to the axis.
TEST_F(CountedOutputs, PartsBetweenData) {
  const std::string graph = R"(g (float[n, 2] x, int64[1] start, int64[1] end) => (float[k, 2] y) {
    axis = Constant<value_ints = [0]>()
    y = Slice(x, start, end, axis)
  })";
  const ReferenceTensor x = F32({4, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  const auto part = [&](int64_t start, int64_t end) {
    const auto y = Run(graph, {x, Ints({start}), Ints({end})});
    if (y.empty()) return Numbers{-1};
    EXPECT_EQ(y[0].dims[0] * 2, static_cast<int64_t>(y[0].reals.size()));
    return Values(y[0]);
  };
  EXPECT_EQ(part(1, 3), (Numbers{2, 3, 4, 5}));
  EXPECT_EQ(part(-3, -1), (Numbers{2, 3, 4, 5}));
  EXPECT_EQ(part(2, INT64_MAX), (Numbers{4, 5, 6, 7}));
  EXPECT_EQ(part(INT64_MIN, 1), (Numbers{0, 1}));
  EXPECT_EQ(part(3, 1), Numbers{});
  EXPECT_EQ(part(9, 12), Numbers{});
  EXPECT_EQ(
      ErrorOf(Load(R"(g (float[4, 4] x, int64[2] end) => (float[j, k] y) {
    start = Constant<value_ints = [0, 0]>()
    ["s"] y = Slice(x, start, end)
  })")),
      "m.onnxtxt: node \"s\" (Slice): ends is computed from run-time data, which fusec does not "
      "support");
}

// Each of three rows of a mean over the first two of four elements, repeated along another axis.
TEST_F(CountedOutputs, RepeatedAlongOtherAxes) {
  const std::string graph = R"(g (float[1, 4] x, int64[1] end) => (float[3] y) {
    zero = Constant<value_ints = [0]>()
    axis = Constant<value_ints = [1]>()
    repeats = Constant<value_ints = [3, 1]>()
    part = Slice(x, zero, end, axis)
    rows = Tile(part, repeats)
    y = ReduceMean<keepdims = 0>(rows, axis)
  })";
  const auto y = Run(graph, {F32({1, 4}, {1, 2, 30, 40}), Ints({2})});
  ASSERT_EQ(y.size(), 1u);
  EXPECT_EQ(Values(y[0]), (Numbers{1.5, 1.5, 1.5}));
}

TEST_F(CountedOutputs, TopOfAsManyAsDataSay) {
  const std::string graph =
      R"(g (float[2, 5] x, int64[1] k) => (float[2, m] y, int64[2, m] places) {
    four = Constant<value_ints = [4]>()
    few = Min(k, four)
    y, places = TopK(x, few)
  })";
  const ReferenceTensor x = F32({2, 5}, {1, 5, 2, 4, 3, 9, 6, 8, 7, 5});
  auto y = Run(graph, {x, Ints({2})});
  ASSERT_EQ(y.size(), 2u);
  EXPECT_EQ(y[0].dims, (Dims{2, 2}));
  EXPECT_EQ(y[0].reals, (Numbers{5, 4, 9, 8}));
  EXPECT_EQ(y[1].ints, (Dims{1, 3, 0, 2}));
  y = Run(graph, {x, Ints({77})});
  EXPECT_EQ(y[0].reals, (Numbers{5, 4, 3, 2, 9, 8, 7, 6}));
  EXPECT_EQ(Run(graph, {x, Ints({0})})[0].dims, (Dims{2, 0}));
}

TEST_F(CountedOutputs, DifferentElements) {
  const std::string outputs = " => (float[a] y, int64[b] first, int64[n] inverse, int64[c] counts)";
  const ReferenceTensor x = F32({6}, {2, 1, 1, 3, 4, 3});
  auto found = Run("g (float[n] x)" + outputs + "{ y, first, inverse, counts = Unique(x) }", {x});
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].reals, (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(found[1].ints, (Dims{1, 0, 3, 4}));
  EXPECT_EQ(found[2].ints, (Dims{1, 0, 0, 2, 3, 2}));
  EXPECT_EQ(found[3].ints, (Dims{2, 1, 2, 1}));
  found = Run("g (float[n] x)" + outputs + "{ y, first, inverse, counts = Unique<sorted = 0>(x) }",
              {x});
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].reals, (Numbers{2, 1, 3, 4}));
  EXPECT_EQ(found[1].ints, (Dims{0, 1, 3, 4}));
  EXPECT_EQ(found[2].ints, (Dims{0, 1, 1, 2, 3, 2}));
  EXPECT_EQ(found[3].ints, (Dims{1, 2, 2, 1}));
}

TEST_F(CountedOutputs, DifferentElementsOfCountedRows) {
  const auto y = Run(R"(g (int64[n] x, bool[n] mask) => (int64[a] y, int64[b] counts) {
    rows = Compress(x, mask)
    y, first, inverse, counts = Unique(rows)
  })",
                     {Ints({7, 5, 7, 9, 5}), Ints({1, 0, 1, 1, 0}, Dtype::kBool)});
  ASSERT_EQ(y.size(), 2u);
  EXPECT_EQ(y[0].ints, (Dims{7, 9}));
  EXPECT_EQ(y[1].ints, (Dims{2, 1}));
}

TEST_F(CountedOutputs, OnlyTheElements) {
  const auto y = Run("g (int64[n] x) => (int64[a] y) { y = Unique(x) }", {Ints({3, 1, 3})});
  ASSERT_EQ(y.size(), 1u);
  EXPECT_EQ(y[0].ints, (Dims{1, 3}));
}

TEST_F(CountedOutputs, NaNsAreOneElement) {
  const double nan = std::nan("");
  const auto y =
      Run("g (float[n] x) => (float[a] y, int64[b] first, int64[n] of, int64[c] counts) "
          "{ y, first, of, counts = Unique(x) }",
          {F32({4}, {nan, 1, nan, -1})});
  ASSERT_EQ(y.size(), 4u);
  EXPECT_EQ(y[0].dims, (Dims{3}));
  EXPECT_EQ(y[3].ints, (Dims{1, 1, 2}));
}

TEST_F(CountedOutputs, IndicesOfTheGreatest) {
  const std::string head =
      "g (float[1, 1, 3, 3] x) => (float[1, 1, h, w] y, int64[1, 1, h, w] at) { ";
  const ReferenceTensor x = F32({1, 1, 3, 3}, {-1, -2, -3, -4, -2, -2, -9, -9, -1});
  auto y = Run(
      head + "y, at = MaxPool<kernel_shape = [2, 2], pads = [1, 1, 0, 0], strides = [2, 2]>(x) }",
      {x});
  ASSERT_EQ(y.size(), 2u);
  EXPECT_EQ(y[0].reals, (Numbers{-1, -2, -4, -1}));
  EXPECT_EQ(y[1].ints, (Dims{0, 1, 3, 8}));
  y = Run(head + "y, at = MaxPool<kernel_shape = [2, 2], storage_order = 1>(x) }", {x});
  EXPECT_EQ(y[1].ints, (Dims{0, 3, 4, 8}));
}

TEST_F(CountedOutputs, BitsOfAFloat) {
  const auto y =
      Run("g (float[n] x) => (int32[n] y) { y = BitCast<to = 6>(x) }", {F32({2}, {1, -0.0})});
  ASSERT_EQ(y.size(), 1u);
  EXPECT_EQ(y[0].ints, (Dims{0x3f800000, INT32_MIN}));
  EXPECT_EQ(ErrorOf(Load("g (float[n] x) => (int64[n] y) { [\"b\"] y = BitCast<to = 7>(x) }", {},
                         "ir_version: 10, opset_import: [\"\": 26]")),
            "m.onnxtxt: node \"b\" (BitCast): f32 and i64 differ in width, "
            "expected dtypes of the same width");
}

}  // namespace
}  // namespace fusec
