#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

// Compiles every exported model, and their f16 and bf16 versions, for the CPU with the program itself, and compares answers with the
// double-precision interpreter and onnxruntime by `fusec verify`.
namespace {

namespace fs = std::filesystem;

struct Case {
  std::string model, type;  // type: "float32", "float16", "bfloat16"
};

std::string NameOf(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.model + "_" + info.param.type;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

std::vector<Case> Cases() {
  std::vector<std::string> models;
  for (const auto& entry : fs::directory_iterator(std::string(FUSEC_SOURCE_DIR) + "/models")) {
    if (entry.path().extension() == ".onnx") models.push_back(entry.path().stem());
  }
  std::sort(models.begin(), models.end());
  std::vector<Case> cases;
  for (const char* type : {"float32", "float16", "bfloat16"}) {
    for (const std::string& model : models) cases.push_back({model, type});
  }
  return cases;
}

int Shell(const std::string& command) {
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// TorchScript exports call the batch "batch", dynamo exports s35 or s77.
std::string BatchSymbol(const std::string& model) {
  if (model.find(".ts") != std::string::npos) return "batch";
  return model.find("dlrm") != std::string::npos ? "s35" : "s77";
}

class Models : public testing::TestWithParam<Case> {};

TEST_P(Models, AgreeWithTheInterpreterAndOnnxruntime) {
  const auto& [name, type] = GetParam();
  const fs::path folder = fs::temp_directory_path() / ("fusec_models_" + std::to_string(getpid()));
  fs::create_directories(folder);
  const std::string root = FUSEC_SOURCE_DIR;
  const std::string log = (folder / "log").string();
  std::string model = root + "/models/" + name + ".onnx";
  if (type != "float32") {
    const std::string half = (folder / (name + "." + type + ".onnx")).string();
    ASSERT_EQ(Shell(std::string(FUSEC_PYTHON) + " -W ignore " + root + "/models/to_half.py " + model +
                  " " + half + " " + type),
              0);
    model = half;
  }
  const std::string batches = type == "float32" ? "1,2,5,64,1000" : "1,5,64";
  const int status = Shell(std::string(FUSEC_PROGRAM) + " verify " + model + " --device cpu --dim " +
                         BatchSymbol(name) + "=" + batches + " > " + log + " 2>&1");
  if (status != 0) Shell("cat " + log);
  EXPECT_EQ(status, 0);
  fs::remove_all(folder);
}

// The small models of tests/end_to_end/models, at the sizes that verify tries by default.
std::vector<std::string> FamilyModels() {
  std::vector<std::string> models;
  for (const auto& entry :
       fs::directory_iterator(std::string(FUSEC_SOURCE_DIR) + "/tests/end_to_end/models")) {
    if (entry.path().extension() == ".onnx") models.push_back(entry.path().stem());
  }
  std::sort(models.begin(), models.end());
  return models;
}

class Families : public testing::TestWithParam<std::string> {};

TEST_P(Families, AgreeWithTheInterpreterAndOnnxruntime) {
  const fs::path log =
      fs::temp_directory_path() / ("fusec_families_" + std::to_string(getpid()) + ".log");
  const int status = Shell(std::string(FUSEC_PROGRAM) + " verify " + FUSEC_SOURCE_DIR +
                           "/tests/end_to_end/models/" + GetParam() + ".onnx --device cpu > " +
                           log.string() + " 2>&1");
  if (status != 0) Shell("cat " + log.string());
  EXPECT_EQ(status, 0);
  fs::remove(log);
}

INSTANTIATE_TEST_SUITE_P(All, Families, testing::ValuesIn(FamilyModels()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

INSTANTIATE_TEST_SUITE_P(All, Models, testing::ValuesIn(Cases()), NameOf);

}  // namespace
