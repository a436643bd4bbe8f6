// `fusec verify --per-fusion` and `--bisect` on artifacts with deliberate errors.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>

#include "compiler/support/read_file.h"
#include "runtime/src/artifact/hash.h"
#include "tests/end_to_end/program_test.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const std::string kModels = FUSEC_SOURCE_DIR "/models/";

class Blame : public testing::Test {
 protected:
  Blame() : folder_(*MakeTemporaryFolder()), artifact_(folder_ + "/artifact") {}
  ~Blame() override {
    unsetenv("FUSEC_CXX");
    fs::remove_all(folder_);
  }

  void Compile(const std::string& model) const {
    const ChildResult child = Fusec(
        {kModels + model, "-o", artifact_, "--target", "cpu,sm_90a", "--cpu-level", "x86-64-v3"});
    ASSERT_EQ(child.exit_code, 0) << child.errors;
  }
  // A compiler that first changes the file "$a" by a shell command.
  void UseWrongCompiler(const std::string& edit) const {
    const std::string path = folder_ + "/wrong_compiler";
    std::ofstream(path) << "#!/bin/sh\nfor a in \"$@\"; do case \"$a\" in *.cc)\n"
                        << edit << ";; esac; done\nexec g++ \"$@\"\n";
    fs::permissions(path, fs::perms::owner_all);
    setenv("FUSEC_CXX", path.c_str(), 1);
  }
  // Saves arrays, given as arguments of numpy.savez.
  std::string SaveInputs(const std::string& arrays) const {
    const std::string path = folder_ + "/in.npz";
    const ChildResult written =
        RunChild({FUSEC_PYTHON, "-c", "import numpy, sys; numpy.savez(sys.argv[1], " + arrays + ")", path});
    EXPECT_EQ(written.exit_code, 0) << written.errors;
    return path;
  }
  static void ExpectSaid(const ChildResult& child, int code,
                         ArrayRef<std::string> parts) {
    EXPECT_EQ(child.exit_code, code) << child.errors;
    for (const std::string& part : parts)
      EXPECT_NE(child.output.find(part), std::string::npos) << part << " in\n" << child.output;
  }

  const std::string folder_, artifact_;
};

TEST_F(Blame, ARightArtifactPasses) {
  Compile("lora_mlp.ts.onnx");
  ExpectSaid(Fusec({"verify", artifact_, "--per-fusion", "--device", "cpu"}), 0,
             {"k00_linear_relu", "\npass\n"});
  ExpectSaid(Fusec({"verify", artifact_, "--model", kModels + "lora_mlp.ts.onnx", "--bisect",
                    "--device", "cpu"}),
             0, {"nothing to find"});
}

TEST_F(Blame, AnAlteredStepIsFound) {
  Compile("lora_mlp.ts.onnx");
  const std::string path = artifact_ + "/manifest.json";
  Json manifest = Json::parse(*ReadWholeFile(path, ErrorKind::kArtifact));
  Json& step = manifest["targets"]["cpu"]["steps"][0];
  ASSERT_EQ(step["activation"], "relu");
  step["activation"] = "none";
  manifest.erase("hash");
  std::ofstream(path) << manifest.dump(1);

  const ChildResult alone =
      Fusec({"verify", artifact_, "--per-fusion", "--device", "cpu", "--json"});
  ASSERT_EQ(alone.exit_code, 1) << alone.errors;
  const Json judged = Json::parse(alone.output);
  EXPECT_EQ(judged["pass"], false);
  for (const Json& output : judged["outputs"]) {
    EXPECT_EQ(output["pass"], output["kernel"] != step["name"]) << output;
    for (const char* key : {"name", "max_abs", "max_rel", "rel_l2", "tolerance", "class", "worst"})
      EXPECT_TRUE(output.contains(key)) << key;
  }
  const Json& worst = judged["outputs"][0]["worst"];
  EXPECT_EQ(worst["index"].size(), 2u);
  EXPECT_EQ(worst["expected"], 0) << "relu makes zeros of what is negative";
  EXPECT_LT(worst["found"], 0);

  ExpectSaid(Fusec({"verify", artifact_, "--model", kModels + "lora_mlp.ts.onnx", "--bisect",
                    "--device", "cpu"}),
             1,
             {"the first kernel that is wrong by itself: k00_linear_relu", "worst   element [",
              "expected 0\n", "/layers/layers.1/Relu", "compiled again"});
}

TEST_F(Blame, AFusionToBlameIsFoundAndCured) {
  // Makes the square root wrong in each text that contains LayerNorm's kernel.
  UseWrongCompiler("grep -q k00_layer_norm \"$a\" && sed -i 's/= sqrtf(/= 1.5f * sqrtf(/' \"$a\"");
  const ChildResult child =
      Fusec({"verify", kModels + "lola.ts.onnx", "--bisect", "--device", "cpu"});
  ExpectSaid(child, 1,
             {"the first kernel that is wrong by itself: k00_layer_norm",
              "/norm/LayerNormalization", "--disable-fusion fuse-row-reduction cures it"});
}

// merge-linear is exact only for finite activations (passes/merge_linear.h), so an infinite one shows that it rewrote the graph. Without
// merging, infinity is multiplied by a weight of 0, and the sum is NaN.
TEST_F(Blame, ThePassToBlameIsFound) {
  const std::string model = folder_ + "/model.onnxtxt";
  std::ofstream(model) << R"(<ir_version: 10, opset_import: ["" : 20]>
g (float[n, 2] x) => (float[n, 2] y)
<float[2, 2] first = {1, 0, 0, 1}, float[2, 2] second = {1, 2, 3, 4}>
{
  h = MatMul (x, first)
  y = MatMul (h, second)
})";
  const std::string inputs = SaveInputs("x=numpy.array([[numpy.inf, 1]], 'f')");
  ExpectSaid(Fusec({"verify", model, "--inputs", inputs, "--bisect", "--device", "cpu"}), 1,
             {"every kernel computes what its region says; pass merge-linear changed the graph's meaning",
              "--disable-fusion merge-linear cures it"});
}

// A kernel that is wrong only in some of its calls: verify of the sizes makes three calls in one context, and a context of its own makes
// one.
class WrongCalls : public Blame {
 protected:
  void ExpectBlame(const std::string& calls, ArrayRef<std::string> parts) const {
    const std::string model = folder_ + "/model.onnxtxt";
    std::ofstream(model) << R"(<ir_version: 10, opset_import: ["" : 20]>
g (float[n, 8] x) => (float[n, 8] y)
{
  y = Softmax <axis = 1> (x)
})";
    UseWrongCompiler("sed -i 's/^  const long long first_row = /  static int calls = 0; ++calls; if (" + calls +
                     ") return;\\n&/' \"$a\"");
    const ChildResult made = Fusec({model, "-o", artifact_, "--target", "cpu", "--cpu-level", "x86-64-v3"});
    ASSERT_EQ(made.exit_code, 0) << made.errors;
    unsetenv("FUSEC_CXX");
    ExpectSaid(Fusec({"verify", artifact_, "--model", model, "--bisect", "--device", "cpu", "--dim", "n=1,2,5"}), 1, parts);
  }
};

// Like a kernel with a race, it is right when it runs alone.
TEST_F(WrongCalls, WhatNoKernelIsGuiltyOfLiesBetweenThem) {
  ExpectBlame("calls == 3 || calls == 4", {"output y at n=5", "between the kernels, in the memory plan or the order of launches",
                             "compiled again"});
}

// Before the first size, nothing has run that could affect it.
TEST_F(WrongCalls, TheFirstSizeIsNotBlamedOnSizesBefore) {
  ExpectBlame("calls == 1", {"output y at n=1", "between the kernels", "compiled again"});
}

TEST_F(WrongCalls, WhatAnotherContextDoesRightIsLeftBehind) {
  ExpectBlame("calls == 3", {"output y at n=5", "this size is right in a new context"});
}

// The index policy of the artifact allows an out-of-range id; a recompilation without the policy would fail the run.
TEST_F(Blame, WhatIsCompiledAnewHasTheArtifactsFlags) {
  const std::string model = folder_ + "/model.onnxtxt";
  std::ofstream(model) << R"(<ir_version: 10, opset_import: ["" : 20]>
g (int64[n] ids) => (float[n, 2] y)
<float[3, 2] table = {1, 2, 3, 5, 7, 11}> {
  rows = Gather(table, ids)
  y = Exp(rows)
})";
  const std::string inputs = SaveInputs("ids=numpy.array([1, 7, -9])");
  UseWrongCompiler("sed -i 's/= expf(/= 2.0f * expf(/' \"$a\"");
  const ChildResult made = Fusec({model, "-o", artifact_, "--target", "cpu", "--cpu-level", "x86-64-v3", "--index-policy", "wrap"});
  ASSERT_EQ(made.exit_code, 0) << made.errors;
  unsetenv("FUSEC_CXX");
  ExpectSaid(Fusec({"verify", artifact_, "--model", model, "--bisect", "--device", "cpu", "--inputs", inputs}), 1,
             {"compiled again, " + model + " gives right answers"});
}

TEST_F(Blame, AnAlteredGraphIsNoExcuse) {
  Compile("lola.ts.onnx");
  std::ofstream(artifact_ + "/ir/cpu.ir", std::ios::app) << "# altered\n";
  const ChildResult child = Fusec({"verify", artifact_, "--per-fusion", "--device", "cpu"});
  EXPECT_EQ(child.exit_code, 5);
  EXPECT_NE(child.errors.find("ir/cpu.ir: was altered"), std::string::npos) << child.errors;
}

// Kernels are not judged with weights that somebody replaced together with their hash.
TEST_F(Blame, OtherWeightsAreNamed) {
  Compile("lora_mlp.ts.onnx");
  const std::string path = artifact_ + "/weights.safetensors";
  std::string weights = *ReadWholeFile(path, ErrorKind::kArtifact);
  weights[weights.size() - 4] = static_cast<char>(weights[weights.size() - 4] ^ 1);
  std::ofstream(path, std::ios::binary) << weights;
  Json manifest = Json::parse(*ReadWholeFile(artifact_ + "/manifest.json", ErrorKind::kArtifact));
  manifest.erase("hash");
  manifest["files"]["weights.safetensors"] =
      runtime::Hash128(std::as_bytes(std::span(weights.data(), weights.size())));
  std::ofstream(artifact_ + "/manifest.json") << manifest.dump(1);
  const ChildResult child = Fusec({"verify", artifact_, "--per-fusion", "--device", "cpu"});
  EXPECT_EQ(child.exit_code, 5);
  EXPECT_NE(child.errors.find("is not the one that was compiled in"), std::string::npos)
      << child.errors;
}

}  // namespace
}  // namespace fusec
