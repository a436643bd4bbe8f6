// The compile time of large graphs grows little faster than their size, and memory stays below a limit. The limits are several times what
// was measured on one core, to leave room for slow machines. FUSEC_TEST_GRAPHS=large takes graphs of 100,000 nodes, as the nightly run
// does.
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>

#include "tests/end_to_end/program_test.h"

namespace fusec {
namespace {

// How many nodes a graph has, and how long it may take.
struct Size {
  int nodes;
  double most_seconds;
};

// The size for ordinary runs, and after it that for the night where it is asked for.
std::vector<Size> SizesFrom(int nodes) {
  std::vector<Size> sizes = {{nodes, 60}};
  const char* graphs = std::getenv("FUSEC_TEST_GRAPHS");
  if (graphs != nullptr && std::string(graphs) == "large") sizes.push_back({100000, 180});
  return sizes;
}

// A model of "x" f32[batch, 8] with weights that all layers share.
class TextModel {
 public:
  void Add(const std::string& op, const std::string& operands, const std::string& attributes = "") {
    const std::string result = "v" + std::to_string(++count_);
    nodes_ += "  " + result + " = " + op + attributes + "(" + operands + ")\n";
    last_ = result;
  }
  const std::string& last() const { return last_; }
  int count() const { return count_; }
  std::string Text() const {
    std::string scales, weights;
    for (int i = 0; i < 8; ++i) scales += (i ? ", " : "") + std::to_string(0.5 + 0.125 * i);
    for (int i = 0; i < 64; ++i)
      weights += (i ? ", " : "") + std::to_string(0.01 * (i * 7 % 13 - 6));
    return "<ir_version: 9, opset_import: [\"\" : 17]>\nlarge (float[batch, 8] x) => (float[batch, "
           "8] y)\n<float[8] k = {" +
           scales + "}, float[8, 8] w = {" + weights + "}>\n{\n" + nodes_ + "  y = Identity(" +
           last_ + ")\n}\n";
  }

 private:
  std::string nodes_, last_ = "x";
  int count_ = 0;
};

// One chain of pointwise ops.
TextModel PointwiseChain(int nodes) {
  TextModel model;
  for (const char* ops[] = {"Relu", "Neg", "Sigmoid", "Tanh", "Abs"}; model.count() < nodes;)
    model.Add(ops[model.count() % 5], model.last());
  return model;
}

// Rows that are reduced again and again.
TextModel SoftmaxBlocks(int nodes) {
  TextModel model;
  while (model.count() < nodes) {
    const std::string before = model.last();
    model.Add("Softmax", before, " <axis = 1>");
    model.Add("Mul", model.last() + ", k");
    model.Add("Add", model.last() + ", " + before);
  }
  return model;
}

// Residual layers.
TextModel LinearBlocks(int nodes) {
  TextModel model;
  while (model.count() < nodes) {
    const std::string before = model.last();
    model.Add("MatMul", before + ", w");
    model.Add("Relu", model.last());
    model.Add("Add", model.last() + ", " + before);
    model.Add("Tanh", model.last());
  }
  return model;
}

class LargeGraph : public testing::Test {
 protected:
  void SetUp() override { folder_ = *MakeTemporaryFolder(); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Compiles the model for the CPU and verifies the answers.
  void Compile(const TextModel& model, double most_seconds) {
    SCOPED_TRACE(std::to_string(model.count()) + " nodes");
    const std::string path = folder_ + "/model.onnxtxt", out = folder_ + "/out";
    std::ofstream(path) << model.Text();
    const auto start = std::chrono::steady_clock::now();
    const ChildResult built =
        Fusec({path, "-o", out, "--target", "cpu", "--cpu-level", "x86-64-v3"});
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    ASSERT_EQ(built.exit_code, 0) << built.errors;
    EXPECT_LT(seconds.count(), most_seconds);
    rusage children;
    ASSERT_EQ(getrusage(RUSAGE_CHILDREN, &children), 0);
    EXPECT_LT(children.ru_maxrss, 2 << 20) << "KB, the most of all programs that were run";
    const ChildResult verified = Fusec({"verify", out, "--model", path, "--dim", "batch=3"});
    EXPECT_EQ(verified.exit_code, 0) << verified.output << verified.errors;
  }

  std::string folder_;
};

TEST_F(LargeGraph, ChainOfPointwiseOps) {
  for (const auto& [nodes, seconds] : SizesFrom(10000)) Compile(PointwiseChain(nodes), seconds);
}
TEST_F(LargeGraph, RowReductions) {
  for (const auto& [nodes, seconds] : SizesFrom(3000)) Compile(SoftmaxBlocks(nodes), seconds);
}
TEST_F(LargeGraph, Layers) {
  for (const auto& [nodes, seconds] : SizesFrom(3000)) Compile(LinearBlocks(nodes), seconds);
}

}  // namespace
}  // namespace fusec
