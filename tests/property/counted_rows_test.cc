// Rows whose number depends on data: a model that gets its mask as an input gives the same answers as the model with the mask as a
// constant, whose positions the importer knows.
#include <cmath>

#include "tests/property/compiled_graphs.h"
#include "tests/property/random_generator.h"
#include "tests/property/seeds_to_run.h"
#include "tests/unit/import/import_fixture.h"

namespace fusec {
namespace {

constexpr int64_t kRows = 5, kColumns = 3;

// `text` with each # replaced by `number` and each $ by `rows`.
std::string Filled(const std::string& text, int number, const std::string& rows) {
  std::string filled;
  for (const char c : text) {
    filled += c == '#' ? std::to_string(number) : c == '$' ? rows : std::string(1, c);
  }
  return filled + "\n";
}

// Nodes that make rows r# [count, 3] of $.
const std::vector<std::string> kSteps = {
    "r# = Add($, scale)",
    "r# = Softmax<axis = 0>($)",
    "r# = Softmax<axis = 1>($)",
    "r# = LogSoftmax<axis = 0>($)",
    "r# = MatMul($, weight)",
    "r# = LayerNormalization<axis = 1>($, scale)",
    "r# = CumSum($, zero)",
    "r# = CumSum<reverse = 1>($, zero)",
    "r# = CumSum<exclusive = 1>($, one)",
    "k# = Shape<end = 1>($)\n r#, o# = TopK<axis = 0>($, k#)",
    "k# = Shape<end = 1>($)\n r#, o# = TopK<axis = 0, largest = 0>($, k#)",
    "s# = ReduceSum($, axis)\n r# = Sub($, s#)",
    "s# = ReduceMax($, axis)\n r# = Sub($, s#)",
    "s# = ReduceMean($, axis)\n r# = Sub($, s#)",
    "s# = ReduceL1($, axis)\n r# = Min($, s#)",
    "f# = Reshape($, all)\n h# = Relu(f#)\n r# = Reshape(h#, three)",
    "f# = Reshape($, all)\n u#, p#, v#, c# = Unique(f#)\n g# = Gather(u#, v#)\n"
    "r# = Reshape(g#, three)",
    "f# = Reshape($, all)\n u#, p#, v#, c# = Unique<sorted = 0>(f#)\n q# = Gather(p#, v#)\n"
    "g# = Gather(f#, q#)\n r# = Reshape(g#, three)",
    "t# = Transpose<perm = [1, 0]>($)\n p# = MatMul(t#, $)\n r# = MatMul($, p#)",
    "c# = Concat<axis = 0>($, others, x)\n e# = CumSum<reverse = 1>(c#, zero)\n"
    "s# = ReduceMean(e#, axis)\n r# = Sub($, s#)",
    "t# = Transpose<perm = [1, 0]>(others)\n p# = MatMul($, t#)\n s# = Softmax<axis = 1>(p#)\n"
    "r# = MatMul(s#, others)",
    "t# = Transpose<perm = [1, 0]>(others)\n p# = MatMul($, t#)\n f# = Reshape(p#, all)\n"
    "c# = CumSum<reverse = 1>(f#, zero)\n s# = ReduceMax(c#, axis)\n r# = Sub($, s#)",
    "u#, p#, v#, c# = Unique<axis = 0>($)\n g# = Gather(u#, v#)\n r# = Add(g#, $)",
    "u#, p#, v#, c# = Unique<axis = 0, sorted = 0>($)\n g# = Gather(u#, v#)\n r# = Sub($, g#)",
    "k# = Shape<end = 1>($)\n c# = Squeeze(k#, axis)\n i# = Range(zero, c#, one)\n"
    "g# = CumSum<reverse = 1>(i#, zero)\n m# = Min(i#, g#)\n r# = Gather($, m#)",
};

// Nodes that make y of $; y has a counted size in the last seven, and two of them in the last.
const std::vector<std::string> kEnds = {
    "y = ScatterND(x, tuples, $)",
    "y = ScatterND<reduction = \"add\">(x, tuples, $)",
    "y = ScatterND<reduction = \"max\">(x, tuples, $)",
    "y = ScatterND<reduction = \"mul\">(x, tuples, $)",
    "f = Gather<axis = 1>($, zero)\n to = Gather(ids, places1)\n"
    "c = Gather<axis = 1>(x, zero)\n y = ScatterElements(c, to, f)",
    "y = ReduceMin($, axis)",
    "y = ReduceProd($, axis)",
    "y = ReduceMean($, axis)",
    "y = ReduceLogSumExp($, axis)",
    "f = Reshape($, all)\n b = Cast<to = 9>(f)\n y = Compress(f, b)",
    "f = Reshape($, all)\n b = Cast<to = 9>(f)\n y = NonZero(b)",
    "f = Reshape($, all)\n u, p, v, c = Unique<sorted = 0>(f)\n s = Neg(c)\n y = Mul(s, p)",
    "y = Transpose<perm = [1, 0]>($)",
    "y = Identity($)",
    "h = Gather<axis = 1>($, zero)\n o = Gather<axis = 1>(others, zero)\n"
    "v = Unsqueeze(h, last)\n w = Unsqueeze(o, axis)\n p = Less(v, w)\n n = NonZero(p)\n"
    "c = CumSum<reverse = 1>(n, one)\n y = Transpose<perm = [1, 0]>(c)",
    "t = Transpose<perm = [1, 0]>(others)\n y = MatMul($, t)",
};

std::string Model(Random& random) {
  std::string text = R"(g (float[5, 3] x, int64[5] ids, bool[5] mask) => (float[k, m] y)
<float[3] scale = {0.5, -1, 2}, float[3, 3] weight = {1, 0, -1, 2, 0.5, 0, 0, 1, 1}> {
zero = Constant<value_int = 0>()
one = Constant<value_int = 1>()
axis = Constant<value_ints = [0]>()
all = Constant<value_ints = [-1]>()
three = Constant<value_ints = [-1, 3]>()
last = Constant<value_ints = [1]>()
nobody = Not(mask)
others = Compress<axis = 0>(x, nobody)
places = NonZero(mask)
tuples = Transpose<perm = [1, 0]>(places)
places1 = Squeeze(places, axis)
)";
  text += random.OneIn(2) ? "r0 = GatherND(x, tuples)\n" : "r0 = Compress<axis = 0>(x, mask)\n";
  int number = 0;
  for (int64_t steps = random.Below(4); steps > 0; --steps) {
    const std::string rows = "r" + std::to_string(number++);
    text += Filled(random.From(kSteps), number, rows);
  }
  return text + Filled(random.From(kEnds), number, "r" + std::to_string(number)) + "}";
}

using CountedRows = Import;

TEST_F(CountedRows, AnswerAsThoseOfAKnownMask) {
  for (const uint64_t seed : SeedsToRun(200)) {
    Random random(seed);
    const std::string text = Model(random);
    std::vector<double> values;
    for (int64_t i = 0; i < kRows * kColumns; ++i) values.push_back(random.Eighths());
    std::vector<int64_t> ids, bits;
    const int64_t odds = 1 + random.Below(4);  // all, or fewer and fewer
    for (int64_t i = 0; i < kRows; ++i) {
      ids.push_back(random.Below(kRows));
      bits.push_back(random.OneIn(odds) ? 1 : 0);
    }
    const auto mask = TensorData::From<int64_t>(Dtype::kBool, {kRows}, bits);
    const std::vector<ReferenceTensor> inputs = {
        F32({kRows, kColumns}, values),
        ReferenceTensor::FromData(TensorData::From<int64_t>(Dtype::kI64, {kRows}, ids)),
        ReferenceTensor::FromData(mask)};
    ImportOptions known;
    known.frozen_inputs.emplace("mask", mask);
    const auto counted = Load(text);
    ASSERT_TRUE(counted) << ErrorOf(counted) << "\nseed " << seed << "\n" << text;
    const auto fixed = Load(text, known);
    ASSERT_TRUE(fixed) << ErrorOf(fixed) << "\nseed " << seed << "\n" << text;
    const std::vector<double> wanted = Answer(*fixed->graph, ArrayRef(inputs).slice(0, 2));
    const std::vector<double> found = Answer(*counted->graph, inputs);
    ASSERT_EQ(found.size(), wanted.size()) << "seed " << seed << "\n" << text;
    for (size_t i = 0; i < found.size(); ++i) {
      const bool agree = found[i] == wanted[i] || (std::isnan(found[i]) && std::isnan(wanted[i])) ||
                         std::abs(found[i] - wanted[i]) <= 1e-9 * std::abs(wanted[i]);
      EXPECT_TRUE(agree) << "element " << i << " is " << found[i] << ", expected " << wanted[i]
                         << "\nseed " << seed << "\n"
                         << text;
    }
  }
}

// Models with inner sizes that depend on data, and a y of known size.
const std::vector<std::string> kCompiled = {
    // attention of the rows of one mask over those of the other
    "t = Transpose(right)\n p = MatMul(left, t)\n s = Softmax<axis = 1>(p)\n m = MatMul(s, right)\n"
    "y = ReduceSum<keepdims = 0>(m, axis)",
    "t = Transpose(right)\n p = MatMul(left, t)\n f = Reshape(p, all)\n"
    "c = CumSum<reverse = 1>(f, zero)\n y = ReduceMax(c, axis)",
    "c = Concat<axis = 0>(left, x, right)\n e = CumSum<reverse = 1>(c, zero)\n"
    "y = ReduceMean(e, axis)",
    "r = Cast<to = 7>(x)\n u, first, of, c = Unique<axis = 0>(r)\n y = Gather(c, of)",
    "v, at = TopK<axis = 0>(x, k)\n y = ReduceSum(v, axis)",
    "e = Add(from, k)\n s = Squeeze(from, axis)\n l = Squeeze(e, axis)\n n = Min(l, five)\n"
    "f = Max(s, zero)\n p = Range(f, n, one)\n r = Gather(x, p)\n y = ReduceSum(r, axis)",
    "m = Gather(mask, back)\n other = Compress<axis = 0>(x, m)\n d = Sub(left, other)\n"
    "y = ReduceSumSquare(d, axis)",
};

TEST_F(CountedRows, AnswerAlikeCompiled) {
  std::vector<ImportedModel> models;
  std::vector<const Graph*> graphs;
  for (const std::string& nodes : kCompiled) {
    auto model = Load(
        "g (float[5, 3] x, bool[5] mask, int64[1] k, int64[1] from) => (float[a, b] y) {\n"
        "zero = Constant<value_int = 0>()\n one = Constant<value_int = 1>()\n"
        "five = Constant<value_int = 5>()\n axis = Constant<value_ints = [0]>()\n"
        "all = Constant<value_ints = [-1]>()\n back = Constant<value_ints = [4, 3, 2, 1, 0]>()\n"
        "nobody = Not(mask)\n left = Compress<axis = 0>(x, mask)\n"
        "right = Compress<axis = 0>(x, nobody)\n" +
        nodes + "}");
    ASSERT_TRUE(model) << ErrorOf(model) << "\n" << nodes;
    models.push_back(*std::move(model));
    graphs.push_back(models.back().graph.get());
  }
  for (const RunOn where : {RunOn::kCpu, RunOn::kGpuTextOnCpu}) {
    const auto compiled = CompiledGraphs::Make(graphs, where);
    ASSERT_TRUE(compiled) << compiled.error().message;
    for (const uint64_t seed : SeedsToRun(20)) {
      Random random(seed);
      std::vector<double> values;
      std::vector<int64_t> bits;
      for (int64_t i = 0; i < kRows * kColumns; ++i) values.push_back(random.Eighths());
      for (int64_t i = 0; i < kRows; ++i) bits.push_back(random.OneIn(2) ? 1 : 0);
      const auto ints = [](Dtype dtype, std::vector<int64_t> elements) {
        const auto count = static_cast<int64_t>(elements.size());
        return ReferenceTensor::FromData(
            TensorData::From<int64_t>(dtype, {count}, std::move(elements)));
      };
      const std::vector<ReferenceTensor> inputs = {
          F32({kRows, kColumns}, values), ints(Dtype::kBool, bits),
          ints(Dtype::kI64, {random.Below(kRows + 1)}), ints(Dtype::kI64, {random.Below(kRows)})};
      ExpectAnswers(**compiled, graphs, std::vector(graphs.size(), inputs), 1e-5,
                    "seed " + std::to_string(seed));
    }
  }
}

}  // namespace
}  // namespace fusec
