// Helpers that run the program that was just built.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "compiler/support/child_process.h"

namespace fusec {

inline ChildResult Fusec(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), FUSEC_PROGRAM);
  return RunChild(arguments);
}

// Base class for tests of one model, in a temporary folder of its own.
class ModelTest : public testing::Test {
 protected:
  explicit ModelTest(const char* model) : text_(model) {}
  void SetUp() override {
    folder_ = *MakeTemporaryFolder();
    model_ = folder_ + "/model.onnxtxt";
    std::ofstream(model_) << text_;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Compiles the model with these flags, and returns the artifact.
  std::string Compiled(const std::vector<std::string>& flags) const {
    std::vector<std::string> arguments = {model_,       "-o",          folder_ + "/out", "--target",
                                          "cpu,sm_90a", "--cpu-level", "x86-64-v3"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const ChildResult built = Fusec(arguments);
    EXPECT_EQ(built.exit_code, 0) << built.errors;
    return folder_ + "/out";
  }

  std::string folder_, model_;

 private:
  const char* text_;
};

}  // namespace fusec
