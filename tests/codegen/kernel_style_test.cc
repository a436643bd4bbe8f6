// Checks the style of the kernels of all models. FUSEC_DUMP_KERNELS=FOLDER keeps the kernels.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "compiler/support/child_process.h"
#include "tests/codegen/emitted_kernels.h"
#include "tests/codegen/kernel_lint.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTargets[] = {"cpu", "sm_80", "sm_90a"};

// clang-format does not indent pragmas, like other directives; in kernels they are indented like their loop.
std::string PragmasAtTheLeft(const std::string& text) {
  return std::regex_replace(text, std::regex("\n +#pragma"), "\n#pragma");
}

TEST(KernelStyle, KernelsOfAllModels) {
  const char* kept = std::getenv("FUSEC_DUMP_KERNELS");
  const std::string folder = kept ? kept : *MakeTemporaryFolder();
  for (const std::string& model : ModelPaths()) {
    const auto graph = SimplifiedGraph(model);
    ASSERT_TRUE(graph.has_value()) << graph.error().message;
    for (const std::string target : kTargets) {
      const auto kernels = EmitKernels(**graph, target);
      ASSERT_TRUE(kernels.has_value()) << kernels.error().message;
      const auto again = EmitKernels(**graph, target);
      ASSERT_TRUE(again.has_value()) << again.error().message;
      for (size_t i = 0; i < kernels->size(); ++i) {
        const auto& [name, text] = (*kernels)[i];
        EXPECT_EQ(text, (*again)[i].text) << "the text differs from run to run";
        const std::string stem = fs::path(model).parent_path().filename().string() + "." +
                                 fs::path(model).stem().string();
        const std::string file = stem + "." + target + "." + name + ".cu";
        for (const std::string& problem : LintKernel(text)) ADD_FAILURE() << file << ":" << problem;
        fs::create_directories(folder);
        std::ofstream(folder + "/" + file) << PragmasAtTheLeft(text);
      }
    }
  }
  fs::copy_file(FUSEC_SOURCE_DIR "/.clang-format", folder + "/.clang-format",
                fs::copy_options::overwrite_existing);
  std::vector<std::string> command = {"clang-format", "--dry-run", "--Werror", "--style=file"};
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".cu") command.push_back(entry.path());
  }
  const ChildResult formatted = RunChild(command);
  EXPECT_EQ(formatted.exit_code, 0) << formatted.errors.substr(0, 20000);
  if (!kept) fs::remove_all(folder);
}

}  // namespace
}  // namespace fusec
