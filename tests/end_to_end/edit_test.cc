// `fusec edit` and `fusec rebuild` as users call them: a right edit is accepted, marked, and can be undone; a wrong one is found and
// changes nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "compiler/support/read_file.h"
#include "tests/end_to_end/program_test.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// An artifact in a folder of its own, and its working copy.
class Edit : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = *MakeTemporaryFolder();
    artifact_ = folder_ + "/out";
    copy_ = artifact_ + ".edit";
  }
  void TearDown() override { fs::remove_all(folder_); }

  // A model of examples/fusion, or the file of another one.
  void Compile(const std::string& model, const std::string& targets) {
    const std::string examples = FUSEC_SOURCE_DIR "/examples/fusion/";
    const std::string file = model.ends_with(".onnx") ? model : examples + model + "/model.onnx";
    const ChildResult child =
        Fusec({file, "-o", artifact_, "--target", targets, "--cpu-level", "x86-64-v3"});
    ASSERT_EQ(child.exit_code, 0) << child.errors;
    before_ = Files();
  }

  ChildResult Rebuild(const std::vector<std::string>& flags = {}) const {
    std::vector<std::string> arguments = {"rebuild", artifact_};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return Fusec(arguments);
  }

  // The artifact as text: path and bytes of every file.
  std::map<std::string, std::string> Files() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(artifact_)) {
      if (entry.is_regular_file())
        files[entry.path().lexically_relative(artifact_)] = *ReadWholeFile(entry.path(), ErrorKind::kInput);
    }
    return files;
  }

  // Opens the working copy.
  void Open() {
    const ChildResult child = Fusec({"edit", artifact_});
    ASSERT_EQ(child.exit_code, 0) << child.errors;
  }
  // Replaces text that must be there.
  static void Replace(const std::string& file, const std::string& from, const std::string& to) {
    std::string text = *ReadWholeFile(file, ErrorKind::kInput);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from << " in " << file;
    text.replace(at, from.size(), to);
    std::ofstream(file) << text;
  }
  // Only the working copy is left beside the artifact.
  void ExpectNoOtherFolders() const {
    for (const auto& entry : fs::directory_iterator(folder_)) {
      EXPECT_TRUE(entry.path() == artifact_ || entry.path() == copy_) << entry.path();
    }
  }
  Json Explained(const std::string& target) const {
    return Json::parse(Fusec({"explain", artifact_, "--json", "--target", target}).output);
  }

  std::string folder_, artifact_, copy_;
  std::map<std::string, std::string> before_;
};

TEST_F(Edit, TakesAnEditThatIsRightAndRestoresTheOriginal) {
  Compile("11_softmax", "cpu");
  Open();
  Replace(copy_ + "/kernels.cc", "const float y_value = power / total;",
          "const float y_value = power * (1.0f / total);");
  const ChildResult child = Rebuild();
  ASSERT_EQ(child.exit_code, 0) << child.errors;
  EXPECT_NE(child.output.find("pass"), std::string::npos) << child.output;
  EXPECT_NE(child.output.find("original / edited"), std::string::npos) << child.output;
  EXPECT_EQ(Explained("cpu")["kernels"][0]["edited"]["check"], "passed");
  EXPECT_NE(Fusec({"explain", artifact_}).output.find("1 kernel (fusec rebuild --restore"), std::string::npos);
  for (const char* verb : {"run", "verify", "bench"}) {
    std::vector<std::string> arguments = {verb, artifact_};
    if (verb == std::string("run")) arguments.insert(arguments.end(), {"--random"});
    if (verb == std::string("verify")) arguments.insert(arguments.end(), {"--per-fusion"});
    if (verb == std::string("bench")) arguments.insert(arguments.end(), {"--seconds", "0.01"});
    const ChildResult used = Fusec(arguments);
    EXPECT_EQ(used.exit_code, 0) << used.errors;
    EXPECT_NE(used.errors.find("1 kernel edited (k00_softmax)"), std::string::npos) << used.errors;
  }
  const ChildResult again = Rebuild({"--json"});  // checks it again, and changes nothing
  EXPECT_EQ(again.exit_code, 0) << again.errors;
  const Json said = Json::parse(again.output);
  EXPECT_EQ(said["result"], "rebuilt");
  EXPECT_EQ(said["kernels"], Json({"k00_softmax"}));
  EXPECT_EQ(said["checks"][0]["outputs"][0]["kernel"], "k00_softmax");
  EXPECT_GT(said["checks"][0]["times"][0]["edited_us"], 0);
  const ChildResult restored = Rebuild({"--restore"});
  EXPECT_EQ(restored.exit_code, 0) << restored.errors;
  EXPECT_EQ(Files(), before_);
  EXPECT_TRUE(fs::exists(copy_ + "/kernels.cc"));
  ExpectNoOtherFolders();
}

TEST_F(Edit, FindsAnEditThatIsWrongAndLeavesTheArtifact) {
  Compile("11_softmax", "cpu");
  Open();
  Replace(copy_ + "/kernels.cc", "const float y_value = power / total;", "const float y_value = power;");
  const ChildResult child = Rebuild();
  EXPECT_EQ(child.exit_code, 1) << child.errors;
  EXPECT_NE(child.output.find("FAIL"), std::string::npos) << child.output;
  EXPECT_NE(child.errors.find("left as it was"), std::string::npos) << child.errors;
  EXPECT_EQ(Files(), before_);
  ExpectNoOtherFolders();

  const ChildResult kept = Rebuild({"--keep-wrong"});
  EXPECT_EQ(kept.exit_code, 1) << kept.errors;
  EXPECT_EQ(Explained("cpu")["kernels"][0]["edited"]["check"], "failed");
  const ChildResult run = Fusec({"run", artifact_, "--random"});
  EXPECT_NE(run.errors.find("k00_softmax, check failed"), std::string::npos) << run.errors;
  EXPECT_EQ(Fusec({"verify", artifact_, "--per-fusion"}).exit_code, 1);
  EXPECT_EQ(Rebuild({"--restore"}).exit_code, 0);
  EXPECT_EQ(Files(), before_);
}

// With only one block, the sizes of verify would not show that rows are left out.
TEST_F(Edit, FindsBlocksThatAreTooFew) {
  Compile("11_softmax", "cpu");
  Open();
  Replace(copy_ + "/kernels.cc", "(batch + 255) / 256 blocks", "(batch + 511) / 512 blocks");
  const ChildResult child = Rebuild();
  EXPECT_EQ(child.exit_code, 1) << child.errors;
  EXPECT_NE(child.output.find("FAIL"), std::string::npos) << child.output;
  EXPECT_EQ(Files(), before_);

  // The same mistake in the kernel: its blocks have become smaller than the launch says.
  Replace(copy_ + "/kernels.cc", "(batch + 511) / 512 blocks", "(batch + 255) / 256 blocks");
  Replace(copy_ + "/kernels.cc", "kChunk = 256", "kChunk = 64");
  EXPECT_EQ(Rebuild().exit_code, 1);
  EXPECT_EQ(Files(), before_);
  Replace(copy_ + "/kernels.cc", "(batch + 255) / 256 blocks", "(batch + 63) / 64 blocks");
  const ChildResult right = Rebuild();
  EXPECT_EQ(right.exit_code, 0) << right.errors;
  EXPECT_EQ(Rebuild({"--restore"}).exit_code, 0);
  EXPECT_EQ(Files(), before_);
}

TEST_F(Edit, SurvivesAKernelThatCrashes) {
  Compile("11_softmax", "cpu");
  Open();
  Replace(copy_ + "/kernels.cc", "const float y_value = power / total;",
          "const float y_value = power / total + x[1LL << 50];");
  const ChildResult child = Rebuild({"--json"});
  EXPECT_EQ(child.exit_code, 1) << child.errors;
  EXPECT_NE(child.errors.find("ended by a signal"), std::string::npos) << child.errors;
  const Json said = Json::parse(child.output);
  EXPECT_EQ(said["result"], "left");
  EXPECT_EQ(said["pass"], false);
  EXPECT_EQ(said["checks"], Json::array());
  EXPECT_EQ(Files(), before_);
  ExpectNoOtherFolders();
}

// Interrupted, it leaves nothing; killed, it leaves the artifact.
TEST_F(Edit, StopsAKernelThatNeverEnds) {
  Compile("11_softmax", "cpu");
  Open();
  Replace(copy_ + "/kernels.cc", "const float y_value = power / total;",
          "const float y_value = power / total;\n      while (k == 5) asm volatile(\"\");");
  const auto stopped_by = [&](const char* signal) {
    // Runs in the foreground, since a second signal, sent to the process group, would end it at once.
    return RunChild({"timeout", "--foreground", "-s", signal, "2", FUSEC_PROGRAM, "rebuild", artifact_}).exit_code;
  };
  EXPECT_EQ(stopped_by("INT"), 124);
  EXPECT_EQ(Files(), before_);
  ExpectNoOtherFolders();
  EXPECT_NE(stopped_by("KILL"), 0);
  EXPECT_EQ(Files(), before_);
}

TEST_F(Edit, ShowsTheLineThatDoesNotCompile) {
  Compile("11_softmax", "cpu,sm_90a");
  Open();
  std::map<std::string, std::string> errors = {{"kernels.cc", "the CPU (x86-64-v3)"}, {"k00_softmax.cu", "sm_90a"}};
  for (const auto& [name, target] : errors) {
    const std::string file = copy_ + "/" + name;
    const std::string good = *ReadWholeFile(file, ErrorKind::kInput);
    Replace(file, "const float shifted = x_value - greatest;", "const float shifted = x_valu - greatest;");
    const std::string text = *ReadWholeFile(file, ErrorKind::kInput);
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<long>(text.find("x_valu -")), '\n');
    const ChildResult child = Rebuild();
    EXPECT_EQ(child.exit_code, 6) << child.errors;
    EXPECT_NE(child.errors.find(file + " cannot be compiled for " + target), std::string::npos) << child.errors;
    EXPECT_NE(child.errors.find(file + ":" + std::to_string(line)), std::string::npos) << child.errors;
    EXPECT_NE(child.errors.find("const float shifted = x_valu - greatest;"), std::string::npos) << child.errors;
    EXPECT_EQ(Files(), before_);
    std::ofstream(file) << good;
  }
}

// Where there is a GPU, the kernel is checked on it.
TEST_F(Edit, ChangesTheLaunchOfAGpuKernel) {
  Compile("11_softmax", "sm_90a");
  Open();
  const std::string file = copy_ + "/k00_softmax.cu";
  Replace(file, "kRowsPerBlock = 8;", "kRowsPerBlock = 4;");
  Replace(file, "(batch + 7) / 8 blocks of 256 threads", "(batch + 3) / 4 blocks of 128 threads");
  const ChildResult differs = Rebuild();
  EXPECT_EQ(differs.exit_code, 6) << differs.errors;
  EXPECT_NE(differs.errors.find("__launch_bounds__(256), but the kernel is launched in blocks of 128 threads"),
            std::string::npos)
      << differs.errors;
  Replace(file, "__launch_bounds__(256)", "__launch_bounds__(128)");
  const ChildResult child = Rebuild();
  ASSERT_EQ(child.exit_code, 0) << child.errors;
  const Json step = Json::parse(*ReadWholeFile(artifact_ + "/manifest.json", ErrorKind::kInput))["targets"]["sm_90a"]["steps"][0];
  EXPECT_EQ(step["blocks"], "floordiv(batch + 3, 4)");
  EXPECT_EQ(step["block_size"], 128);
  const Json explained = Explained("sm_90a");
  EXPECT_EQ(explained["kernels"][0]["launch"], "one warp per row; 32 blocks of 128 threads");
  EXPECT_EQ(Fusec({"explain", artifact_, "--ptx"}).exit_code, 0);
  EXPECT_EQ(Rebuild({"--restore"}).exit_code, 0);
  EXPECT_EQ(Files(), before_);
}

TEST_F(Edit, TakesTextsThatWereEditedInTheArtifact) {
  Compile("11_softmax", "cpu,sm_90a");
  Replace(artifact_ + "/cpu/kernels.cc", "const float y_value = power / total;",
          "const float y_value = power * (1.0f / total);");
  Replace(artifact_ + "/kernels/k00_softmax.cu", "const float y_value = power_value / total;",
          "const float y_value = power_value * (1.0f / total);");
  const ChildResult child = Rebuild();
  ASSERT_EQ(child.exit_code, 0) << child.errors;
  EXPECT_EQ(Explained("cpu")["kernels"][0]["edited"]["check"], "passed");
  EXPECT_TRUE(Explained("sm_90a")["kernels"][0].contains("edited"));
  EXPECT_EQ(Rebuild({"--restore"}).exit_code, 0);
  EXPECT_EQ(Files(), before_);
}

// The folder has the text for the last GPU; another GPU keeps its own text where it differs.
TEST_F(Edit, CompilesForTheGpusThatHaveTheText) {
  Compile("11_softmax", "sm_80,sm_90a");
  Open();
  Replace(copy_ + "/k00_softmax.cu", "const float y_value = power_value / total;",
          "const float y_value = power_value * (1.0f / total);");
  const ChildResult child = Rebuild();
  ASSERT_EQ(child.exit_code, 0) << child.errors;
  const Json manifest = Json::parse(*ReadWholeFile(artifact_ + "/manifest.json", ErrorKind::kInput));
  const bool warned = child.errors.find("is not the text that was compiled for sm_80") != std::string::npos;
  EXPECT_EQ(manifest["targets"]["sm_80"]["steps"][0].contains("edited"), !warned) << child.errors;
  EXPECT_EQ(manifest["targets"]["sm_90a"]["steps"][0]["edited"]["original"],
            Json::parse(before_.at("manifest.json"))["files"]["kernels/k00_softmax.cu"]);
  EXPECT_EQ(Rebuild({"--restore"}).exit_code, 0);
  EXPECT_EQ(Files(), before_);
}

// Each runs at some of the sizes that are checked, also where only one of two can run.
TEST_F(Edit, ChecksKernelsThatRunForOtherSizes) {
  Compile(FUSEC_SOURCE_DIR "/tests/end_to_end/models/bi_lstm.ts.onnx", "cpu");
  Open();
  const std::string file = copy_ + "/kernels.cc";
  std::string text = *ReadWholeFile(file, ErrorKind::kInput);
  const std::string heading = "extern \"C\" __global__";
  for (size_t at = 0; (at = text.find(heading, at)) != std::string::npos; at += heading.size() + 10)
    text.insert(at, "// Edited.\n");
  std::ofstream(file) << text;
  const ChildResult child = Rebuild();
  EXPECT_EQ(child.exit_code, 0) << child.errors;
  EXPECT_NE(child.output.find("_recurrence "), std::string::npos) << child.output;
  EXPECT_NE(child.output.find("_recurrence_many_rows"), std::string::npos) << child.output;
}

TEST_F(Edit, EditsOneOfSeveralKernels) {
  Compile("12_attention", "sm_90a");  // has a kernel for many rows besides
  const ChildResult opened = Fusec({"edit", artifact_, "k00_attention_many_rows"});
  EXPECT_EQ(opened.output, copy_ + "/k00_attention_many_rows.cu\n");
  const std::string given = folder_ + "/given";
  fs::copy(copy_, given);
  fs::remove_all(copy_);
  Replace(given + "/k00_attention_many_rows.cu", "// kernel  :", "// Edited.\n// kernel  :");
  const ChildResult taken = Fusec({"edit", artifact_, "--from", given});
  EXPECT_EQ(taken.exit_code, 0) << taken.errors;
  const ChildResult child = Rebuild();
  ASSERT_EQ(child.exit_code, 0) << child.errors;
  const Json manifest = Json::parse(*ReadWholeFile(artifact_ + "/manifest.json", ErrorKind::kInput));
  for (const Json& step : manifest["targets"]["sm_90a"]["steps"])
    EXPECT_EQ(step.contains("edited"), step["name"] == "k00_attention_many_rows") << step;
  fs::remove_all(given);
  EXPECT_EQ(Rebuild({"--restore"}).exit_code, 0);
  EXPECT_EQ(Files(), before_);
}

}  // namespace
}  // namespace fusec
