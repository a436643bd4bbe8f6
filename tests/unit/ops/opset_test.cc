// Differences of older opsets: attributes that became inputs, and softmax of flattened rows.
#include <filesystem>
#include <fstream>

#include "compiler/import/import.h"
#include "tests/unit/ops/run_graph.h"

namespace fusec {
namespace {

class Opset : public testing::Test {
 protected:
  ReferenceTensor Run(int opset, const std::string& graph,
                      ArrayRef<ReferenceTensor> inputs) {
    const auto folder = std::filesystem::path(testing::TempDir());
    const std::string path = folder / "opset_test.onnxtxt";
    std::ofstream(path) << "<ir_version: 4, opset_import: [\"\" : " << opset << "]>\n" << graph;
    Result<ImportedModel> model = ImportOnnx(path, {});
    if (!model) throw std::runtime_error(model.error().message);
    return RunGraph(*model->graph, inputs)[0];
  }
};

TEST_F(Opset, SliceByAttributes) {
  const std::string text =
      "g (float[n, 4] x) => (float[n, m] y) "
      "{ y = Slice <axes = [1], starts = [1], ends = [-1]> (x) }";
  EXPECT_EQ(Run(9, text, {Reals({1, 4}, {1, 2, 3, 4})}).reals, (std::vector<double>{2, 3}));
}

TEST_F(Opset, TopKByAttribute) {
  const std::string text = "g (float[4] x) => (float[2] y) { y, i = TopK <k = 2> (x) }";
  EXPECT_EQ(Run(9, text, {Reals({4}, {1, 4, 3, 2})}).reals, (std::vector<double>{4, 3}));
}

TEST_F(Opset, ClipByAttributes) {
  const std::string text = "g (float[n] x) => (float[n] y) { y = Clip <min = 0.0, max = 2.0> (x) }";
  EXPECT_EQ(Run(7, text, {Reals({3}, {-1, 1, 3})}).reals, (std::vector<double>{0, 1, 2}));
}

TEST_F(Opset, ReduceAxes) {
  const ReferenceTensor x = Reals({2, 2}, {1, 2, 3, 4});
  const std::string head = "g (float[n, 2] x) => (float[n] y) ";
  EXPECT_EQ(Run(11, head + "{ y = ReduceSum <axes = [-1], keepdims = 0> (x) }", {x}).reals,
            (std::vector<double>{3, 7}));
  EXPECT_EQ(Run(13,
                head + "{ a = Constant <value_ints = [-1]> ()"
                       "  y = ReduceSum <keepdims = 0> (x, a) }",
                {x})
                .reals,
            (std::vector<double>{3, 7}));
  EXPECT_EQ(Run(18, head + "{ y = ReduceSumSquare <noop_with_empty_axes = 1> (x) }", {x}).reals,
            (std::vector<double>{1, 4, 9, 16}));
}

TEST_F(Opset, SoftmaxFlattensBefore13) {
  const ReferenceTensor x = Reals({1, 2, 2}, {0, 0, 0, 0});
  const std::string text =
      "g (float[n, 2, 2] x) => (float[n, 2, 2] y) { y = Softmax <axis = 1> (x) }";
  EXPECT_EQ(Run(11, text, {x}).reals, (std::vector<double>{0.25, 0.25, 0.25, 0.25}));
  EXPECT_EQ(Run(13, text, {x}).reals, (std::vector<double>{0.5, 0.5, 0.5, 0.5}));
}

TEST_F(Opset, MatMulOfVectors) {
  const ReferenceTensor v = Reals({2}, {1, 10});
  const ReferenceTensor m = Reals({2, 2}, {1, 2, 3, 4});
  const auto run = [&](const std::string& a, const std::string& b) {
    return Run(13,
               "g (float[2] v, float[2, 2] m) => (float y) { y = MatMul (" + a + ", " + b + ") }",
               {v, m});
  };
  EXPECT_EQ(run("v", "v").dims, std::vector<int64_t>());
  EXPECT_EQ(run("v", "v").reals, std::vector<double>{101});
  EXPECT_EQ(run("v", "m").reals, (std::vector<double>{31, 42}));
  EXPECT_EQ(run("m", "v").reals, (std::vector<double>{21, 43}));
  EXPECT_EQ(run("m", "v").dims, std::vector<int64_t>{2});
}

}  // namespace
}  // namespace fusec
