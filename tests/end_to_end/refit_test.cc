// `fusec refit` as users call it: a refitted artifact has the same bytes as one compiled from the
// model with the new weights, and refitting the old weights restores it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/package/artifact_folder.h"
#include "compiler/package/weights_file.h"
#include "compiler/support/read_file.h"
#include "tests/end_to_end/program_test.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Files = std::map<std::string, std::string>;

// Path and hash of every file.
Files FilesOf(const std::string& folder) {
  Files files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      files[entry.path().lexically_relative(folder)] =
          HashOf(*ReadWholeFile(entry.path(), ErrorKind::kInput));
    }
  }
  return files;
}

// The model is y = clip(relu(x W + b) V, low, high) + table[id], with weights that depend on
// `scale` and bounds that are numbers in a kernel's text.
class Refit : public testing::Test {
 protected:
  void SetUp() override { folder_ = *MakeTemporaryFolder(); }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string Numbers(int count, double scale) {
    std::string text;
    for (int i = 0; i < count; ++i)
      text += (i > 0 ? ", " : "") + std::to_string(scale * (0.25 + (i * 37 % 11) / 11.0));
    return "{" + text + "}";
  }
  // Each version has a folder of its own, since kernels contain the name of the model's file.
  std::string Model(const std::string& version, double scale, double high = 6) const {
    fs::create_directories(folder_ + "/" + version);
    const std::string path = folder_ + "/" + version + "/model.onnxtxt";
    std::ofstream(path) << R"(<ir_version: 8, opset_import: ["" : 17]>
model (float[batch,5] x, int64[batch] id) => (float[batch,4] y)
  <float[5,24] w = )" << Numbers(120, scale)
                        << ", float[24] b = " << Numbers(24, scale)
                        << ", float[24,4] v = " << Numbers(96, scale / 8)
                        << ", float[30,4] table = " << Numbers(120, scale)
                        << ", float low = {0.5}, float high = {" << high << R"(}>
{
  h = MatMul(x, w)
  s = Add(h, b)
  r = Relu(s)
  p = MatMul(r, v)
  c = Clip(p, low, high)
  e = Gather<axis = 0>(table, id)
  y = Add(c, e)
}
)";
    return path;
  }
  std::string Compile(const std::string& model, const std::string& name,
                      const std::vector<std::string>& flags = {}) const {
    std::string out = folder_ + "/" + name;
    std::vector<std::string> arguments = {model,        "-o",          out,        "--target",
                                          "cpu,sm_90a", "--cpu-level", "x86-64-v3"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const ChildResult child = Fusec(arguments);
    EXPECT_EQ(child.exit_code, 0) << child.errors;
    return out;
  }

  std::string folder_;
};

TEST_F(Refit, IsWhatCompilingTheModelGives) {
  const std::string a = Compile(Model("a", 1), "A"), b = Compile(Model("b", 1.5), "B");
  const Files first = FilesOf(a);
  const std::string other = folder_ + "/AB";
  ChildResult child =
      Fusec({"refit", a, "--weights", folder_ + "/b/model.onnxtxt", "--output", other});
  ASSERT_EQ(child.exit_code, 0) << child.errors;
  EXPECT_NE(child.errors.find("4 of "), std::string::npos) << child.errors;
  EXPECT_EQ(FilesOf(other), FilesOf(b));
  EXPECT_EQ(FilesOf(a), first);
  child = Fusec({"refit", other, "--weights", folder_ + "/a/model.onnxtxt"});  // in its place
  ASSERT_EQ(child.exit_code, 0) << child.errors;
  EXPECT_EQ(FilesOf(other), first);
}

TEST_F(Refit, KeepsWhatTheArtifactWasCompiledWith) {
  const std::vector<std::string> flags = {
      "--dim", "batch=2..64",      "--index-policy",
      "clamp", "--disable-fusion", "fuse-matmul-epilogue,fuse-pointwise"};
  const std::string a = Compile(Model("a", 1), "A", flags), b = Compile(Model("b", 2), "B", flags);
  const ChildResult child = Fusec({"refit", a, "--weights", folder_ + "/b/model.onnxtxt"});
  ASSERT_EQ(child.exit_code, 0) << child.errors;
  EXPECT_EQ(FilesOf(a), FilesOf(b));
}

TEST_F(Refit, TensorsOfAFileReplaceInitializersOfTheirNames) {
  const std::string model = Model("a", 1), a = Compile(model, "A");
  TensorData table(Dtype::kF32, {30, 4});
  for (int i = 0; i < 120; ++i) table.SetDouble(i, 0.5 * i);
  const std::string weights = folder_ + "/new.safetensors";
  ASSERT_TRUE(WriteWeights(weights, {{"table", &table}}));
  ChildResult child = Fusec({"refit", a, "--weights", weights, "--model", model});
  ASSERT_EQ(child.exit_code, 0) << child.errors;
  EXPECT_NE(child.errors.find("1 of "), std::string::npos) << child.errors;
  child = Fusec({"verify", a, "--model", model, "--device", "cpu"});
  EXPECT_EQ(child.exit_code, 1) << child.output;  // the model has the old ones

  ASSERT_TRUE(WriteWeights(weights, {{"table", &table}, {"tabel", &table}}));
  child = Fusec({"refit", a, "--weights", weights, "--model", model});
  EXPECT_EQ(child.exit_code, 6) << child.errors;
  EXPECT_NE(child.errors.find("new tensor \"tabel\" (did you mean \"table\"?)"), std::string::npos)
      << child.errors;
}

TEST_F(Refit, TellsOfANumberInAKernel) {
  const std::string a = Compile(Model("a", 1), "A");
  const Files before = FilesOf(a);
  Model("b", 1, 5);
  const ChildResult child = Fusec({"refit", a, "--weights", folder_ + "/b/model.onnxtxt"});
  EXPECT_EQ(child.exit_code, 3) << child.errors;
  EXPECT_NE(child.errors.find("does not fit"), std::string::npos) << child.errors;
  EXPECT_NE(child.errors.find("tensor \"high\" has another value, and kernel k02_clip_"),
            std::string::npos)
      << child.errors;
  EXPECT_EQ(FilesOf(a), before);
}

TEST_F(Refit, TellsOfTensorsThatWereOne) {
  const auto model = [&](const std::string& version, double scale) {
    fs::create_directories(folder_ + "/" + version);
    const std::string path = folder_ + "/" + version + "/model.onnxtxt";
    std::ofstream(path) << R"(<ir_version: 8, opset_import: ["" : 17]>
model (float[batch,24] x) => (float[batch,24] y, float[batch,24] z)
  <float[24] a = )" << Numbers(24, 1)
                        << ", float[24] b = " << Numbers(24, scale) << R"(>
{
  y = Add(x, a)
  z = Mul(x, b)
}
)";
    return path;
  };
  const std::string a = Compile(model("a", 1), "A");
  const Files before = FilesOf(a);
  const ChildResult child = Fusec({"refit", a, "--weights", model("b", 2)});
  EXPECT_EQ(child.exit_code, 3) << child.errors;
  EXPECT_NE(child.errors.find("tensor \"b\" equals \"a\" with the old weights only, and "
                              "eliminate-common stores the two as one"),
            std::string::npos)
      << child.errors;
  EXPECT_EQ(FilesOf(a), before);
}

// The factor of one is gone from the program, and the bound that was computed is a number in it.
TEST_F(Refit, TellsWhichPassDecided) {
  const auto model = [&](const std::string& version, double factor, double bound) {
    fs::create_directories(folder_ + "/" + version);
    const std::string path = folder_ + "/" + version + "/model.onnxtxt";
    std::ofstream(path) << R"(<ir_version: 8, opset_import: ["" : 17]>
model (float[batch,24] x) => (float[batch,24] y)
  <float factor = {)" << factor
                        << "}, float low = {0}, float half = {" << bound / 2 << R"(}>
{
  high = Add(half, half)
  c = Clip(x, low, high)
  s = Mul(c, factor)
  y = Exp(s)
}
)";
    return path;
  };
  const std::string a = Compile(model("a", 1, 6), "A");
  ChildResult child = Fusec({"refit", a, "--weights", model("b", 2, 6)});
  EXPECT_EQ(child.exit_code, 3) << child.errors;
  EXPECT_NE(child.errors.find("tensor \"factor\" has another value, and canonicalize specialized "
                              "the program for the old value; kernel k00_clip_exp"),
            std::string::npos)
      << child.errors;
  child = Fusec({"refit", a, "--weights", model("b", 1, 5)});
  EXPECT_EQ(child.exit_code, 3) << child.errors;
  EXPECT_NE(child.errors.find("tensor \"high\" (made of \"half\" by fold-constants) has another "
                              "value, and kernel k00_clip_exp"),
            std::string::npos)
      << child.errors;
}

// Passes could fold scales of one, biases of zero and bounds into the program.
TEST_F(Refit, TakesAnyValuesOfUpdatableTensors) {
  const std::vector<std::string> flags = {"--updatable", "*"};
  const std::string a = Compile(Model("a", 0, 6), "A", flags);
  const std::string model = Model("b", 1.5, 5), b = Compile(model, "B", flags);
  const ChildResult child = Fusec({"refit", a, "--weights", model});
  ASSERT_EQ(child.exit_code, 0) << child.errors;
  EXPECT_EQ(FilesOf(a), FilesOf(b));
  const ChildResult verified = Fusec({"verify", a, "--model", model, "--device", "cpu"});
  EXPECT_EQ(verified.exit_code, 0) << verified.output << verified.errors;
  EXPECT_EQ(Fusec({"verify", a, "--per-fusion", "--device", "cpu"}).exit_code, 0);
}

TEST_F(Refit, KeepsRowsIndependentOfTheBatch) {
  const std::vector<std::string> flags = {"--batch-invariant"};
  const std::string a = Compile(Model("a", 1), "A", flags);
  const std::string model = Model("b", 2), b = Compile(model, "B", flags);
  const ChildResult child = Fusec({"refit", a, "--weights", model});
  ASSERT_EQ(child.exit_code, 0) << child.errors;
  EXPECT_EQ(FilesOf(a), FilesOf(b));
  EXPECT_EQ(Fusec({"verify", a, "--per-fusion", "--device", "cpu"}).exit_code, 0);
}

// The layer normalization has products and sums that g++ would contract.
TEST_F(Refit, EditedKernelsOfBatchInvariantArtifactsAreCompiledAsTheOthers) {
  const std::string model = FUSEC_SOURCE_DIR "/models/lola.ts.onnx",
                    so = "cpu/kernels-x86-64-v3.so";
  const std::string a = Compile(model, "A", {"--batch-invariant"}), b = Compile(model, "B");
  const std::string before = FilesOf(a).at(so);
  EXPECT_NE(FilesOf(b).at(so), before);
  Fusec({"edit", a});
  std::ofstream(a + ".edit/kernels.cc", std::ios::app) << "// edited\n";
  ASSERT_EQ(Fusec({"rebuild", a}).exit_code, 0);
  EXPECT_EQ(FilesOf(a).at(so), before);
}

TEST_F(Refit, StoresTablesAsTheArtifactDoes) {
  const std::vector<std::string> flags = {"--table-storage", "table=int8", "--updatable", "tab*"};
  const std::string a = Compile(Model("a", 1), "A", flags), b = Compile(Model("b", 2), "B", flags);
  const ChildResult child = Fusec({"refit", a, "--weights", folder_ + "/b/model.onnxtxt"});
  ASSERT_EQ(child.exit_code, 0) << child.errors;
  EXPECT_EQ(FilesOf(a), FilesOf(b));
}

TEST_F(Refit, EditedKernelsStay) {
  const std::string a = Compile(Model("a", 1), "A");
  Fusec({"edit", a});
  const std::string copy = a + ".edit/kernels.cc";
  std::ofstream(copy, std::ios::app) << "// edited\n";
  ASSERT_EQ(Fusec({"rebuild", a}).exit_code, 0);
  const std::string model = Model("b", 2), b = Compile(model, "B");
  ChildResult child = Fusec({"refit", a, "--weights", model});
  ASSERT_EQ(child.exit_code, 0) << child.errors;
  const auto text = ReadWholeFile(a + "/cpu/kernels.cc", ErrorKind::kInput);
  EXPECT_TRUE(text && text->ends_with("// edited\n"));
  EXPECT_EQ(Fusec({"verify", a, "--model", model, "--device", "cpu"}).exit_code, 0);
  ASSERT_EQ(Fusec({"rebuild", a, "--restore"}).exit_code, 0);
  EXPECT_EQ(FilesOf(a), FilesOf(b));
}

}  // namespace
}  // namespace fusec
