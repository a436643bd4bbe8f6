// Ops of TensorFlow that tf2onnx leaves in a graph (compiler/import/contrib/tensorflow.cc).
#include <cmath>

#include "tests/unit/import/import_fixture.h"

namespace fusec {
namespace {

using Numbers = std::vector<double>;

class TensorFlowOps : public Import {
 protected:
  // The answer of a graph of opset 15 that computes y from x (and z).
  Numbers Of(const std::string& type, const std::string& body, ArrayRef<ReferenceTensor> inputs) const {
    const std::string z = inputs.size() > 1 ? ", " + type + " z" : "";
    const std::string text = "g (" + type + " x" + z + ") => (" + type + " y)\n<int64 two = {2}, int64 zero = {0}> {\n" + body + "\n}";
    const auto model = Load(text, {}, "ir_version: 8, opset_import: [\"\": 15]");
    EXPECT_TRUE(model) << ErrorOf(model);
    return model ? Answer(*model->graph, inputs) : Numbers{};
  }
  static void ExpectNear(const Numbers& answer, const Numbers& right) {
    ASSERT_EQ(answer.size(), right.size());
    for (size_t i = 0; i < right.size(); ++i) EXPECT_NEAR(answer[i], right[i], 1e-12) << "element " << i;
  }
};

TEST_F(TensorFlowOps, AreExactNearZeroAndFarFromIt) {
  const auto x = F32({3}, {-0.5, 1e-9, 4});
  const double tiny = static_cast<float>(1e-9);
  ExpectNear(Of("float[3]", "y = Log1p(x)", {x}), {std::log1p(-0.5), std::log1p(tiny), std::log1p(4.0)});
  ExpectNear(Of("float[3]", "y = Expm1(x)", {x}), {std::expm1(-0.5), std::expm1(tiny), std::expm1(4.0)});
  const Numbers far = Of("float[3]", "y = Erfc(x)", {F32({3}, {-0.5, 0, 4})});
  ExpectNear(far, {std::erfc(-0.5), 1, std::erfc(4.0)});
  EXPECT_NEAR(far[2] / std::erfc(4.0), 1, 1e-12);
}

TEST_F(TensorFlowOps, ProductsWithZeroAreZero) {
  const auto x = F32({3}, {0, 2, 0}), z = F32({3}, {-1, 3, INFINITY});
  ExpectNear(Of("float[3]", "y = Xlogy(x, z)", {x, z}), {0, 2 * std::log(3.0), 0});
  ExpectNear(Of("float[3]", "y = Xdivy(x, z)", {x, F32({3}, {0, 4, NAN})}), {0, 0.5, 0});
  ExpectNear(Of("float[3]", "y = MulNoNan(x, z)", {F32({3}, {NAN, 2, 5}), F32({3}, {0, 3, 0})}), {0, 6, 0});
}

TEST_F(TensorFlowOps, CountAndCompare) {
  const auto bucket = "b = Bucketize<boundaries = [-1.0, 0.0, 2.5]>(x)\n y = Cast<to = 1>(b)";
  ExpectNear(Of("float[4]", bucket, {F32({4}, {-1.5, -1, 2.4, 2.5})}), {0, 1, 2, 3});
  const auto x = F32({1, 4}, {1, 3, 3, 7}), z = F32({1, 4}, {0, 3, 7, 9});
  ExpectNear(Of("float[1, 4]", "b = LowerBound<out_type = 6>(x, z)\n y = Cast<to = 1>(b)", {x, z}), {0, 1, 3, 4});
  ExpectNear(Of("float[1, 4]", "b = UpperBound<out_type = 6>(x, z)\n y = Cast<to = 1>(b)", {x, z}), {0, 3, 4, 4});
  const auto top = "t = ArgMin<axis = 1, keepdims = 0>(x)\n b = InTopKV2(x, t, two)\n"
                   " f = Cast<to = 1>(b)\n s = Shape(x)\n y = Expand(f, s)";
  ExpectNear(Of("float[1, 2]", top, {F32({1, 2}, {1, 3})}), {1, 1});
  ExpectNear(Of("float[1, 4]", top, {x}), {0, 0, 0, 0});
}

TEST_F(TensorFlowOps, AreWrittenWithOnnxs) {
  const auto x = F32({4}, {3, -4, 0, 2});
  ExpectNear(Of("float[4]", "n = EuclideanNorm<keep_dims = 1>(x, zero)\n y = Mul(x, n)", {F32({4}, {3, -4, 0, 0})}), {15, -20, 0, 0});
  ExpectNear(Of("float[4]", "n = L2Loss(x)\n y = Mul(x, n)", {x}), {43.5, -58, 0, 29});
  ExpectNear(Of("float[4]", "y = Cumprod(x, zero)", {F32({4}, {3, -4, 2, 0.5})}), {3, -12, -24, -12});
  ExpectNear(Of("float[4]", "y = Inv(x)", {F32({4}, {3, -4, 2, 0.5})}), {1 / 3.0, -0.25, 0.5, 2});
  ExpectNear(Of("float[4]", "y = TruncateMod(x, z)", {F32({4}, {5, -5, 5, -5}), F32({4}, {3, 3, -3, -3})}), {2, -2, 2, -2});
  // What Keras's argmax does with -0.0: the bits of the sign are compared as integers.
  ExpectNear(Of("float[4]", "i = Bitcast<type = 6>(x)\n m = Bitcast<type = 6>(z)\n a = BitwiseAnd(i, m)\n y = Cast<to = 1>(a)",
                {F32({4}, {-0.0, 0, 1, 2}), F32({4}, {-0.0, -0.0, 1, 1})}),
             {-2147483648.0, 0, 0x3f800000, 0});
}

// tf.boolean_mask with a constant mask for each row keeps as many elements of each, so that they are a matrix again.
TEST_F(TensorFlowOps, MasksOfEqualRowsKeepAsManyOfEach) {
  const auto model = Load(R"(g (float[n, 3] x) => (float[n, 2] y)
<bool[3] chosen = {1, 0, 1}, int64[1] flat = {-1}, int64[1] first = {0}, int64[2] pairs = {-1, 2}> {
    shape = Shape(x)
    rows = Expand(chosen, shape)
    turned = Not(rows)
    mask = Not(turned)
    all = Reshape(mask, flat)
    places = NonZero(all)
    list = Squeeze(places, first)
    elements = Reshape(x, flat)
    kept = Gather(elements, list)
    y = Reshape(kept, pairs)
  })");
  ASSERT_TRUE(model) << ErrorOf(model);
  EXPECT_EQ(Answer(*model->graph, std::vector{F32({2, 3}, {1, 2, 3, 4, 5, 6})}), (Numbers{1, 3, 4, 6}));
}

// tf.math.bincount of ids below a constant writes the number of classes as min(classes, max(classes, greatest id + 1)).
TEST_F(TensorFlowOps, ClampedSizesAreKnown) {
  const auto model = Load(R"(g (int64[n] ids) => (float[4] y)
<int64 classes = {4}, int64[1] axis = {0}> {
    greatest = ReduceMax<keepdims = 0>(ids)
    most = Max(greatest, classes)
    least = Min(classes, most)
    size = Unsqueeze(least, axis)
    y = ConstantOfShape(size)
  })");
  ASSERT_TRUE(model) << ErrorOf(model);
  EXPECT_EQ(Answer(*model->graph, std::vector{I64({2}, {9, 1})}), (Numbers{0, 0, 0, 0}));
}

TEST_F(TensorFlowOps, OthersAreNamed) {
  EXPECT_NE(ErrorOf(Load("g (float[2] x) => (float[2] y) { y = Lgamma(x) }")).find("1 unsupported op: Lgamma"), std::string::npos);
  EXPECT_NE(ErrorOf(Load("g (float[2] x) => (float[2] y) { y = Erfc<depth = 3>(x) }")).find("attribute depth is not supported"),
            std::string::npos);
}

}  // namespace
}  // namespace fusec
