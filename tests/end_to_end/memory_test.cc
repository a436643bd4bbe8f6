// Weights are written once: compiling needs little more memory than them.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>

#include "compiler/support/child_process.h"

extern char** environ;

namespace fusec {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMegabyte = 1 << 20;

// A table that is used as it is and one that constant folding transposes, both in a file of zeros
// without blocks.
constexpr char kModel[] = R"(<ir_version: 10, opset_import: ["" : 18]>
g (int64[batch] ids) => (float[batch, 16] y)
<float[1048576, 16] rows = ["location": "weights.bin", "offset": "0", "length": "67108864"],
 float[16, 2097152] columns = ["location": "weights.bin", "offset": "67108864", "length": "134217728"]>
{
  a = Gather <axis = 0> (rows, ids)
  turned = Transpose <perm = [1, 0]> (columns)
  b = Gather <axis = 0> (turned, ids)
  y = Add (a, b)
}
)";
constexpr int64_t kWeights = 192 * kMegabyte;

// The most memory that a child, or one it waited for, has had at once; -1 if it failed.
int64_t PeakBytes(ArrayRef<std::string> arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawn(&child, argv[0], nullptr, nullptr, argv.data(), environ) != 0) return -1;
  int status = 0;
  struct rusage usage {};
  if (wait4(child, &status, 0, &usage) != child || status != 0) return -1;
  return usage.ru_maxrss * int64_t{1024};
}

TEST(Memory, OfCompilingIsThatOfTheWeights) {
  const std::string folder = *MakeTemporaryFolder();
  std::ofstream(folder + "/model.onnxtxt") << kModel;
  std::ofstream(folder + "/weights.bin");
  fs::resize_file(folder + "/weights.bin", kWeights);
  const int64_t peak = PeakBytes({FUSEC_PROGRAM, folder + "/model.onnxtxt", "-o", folder + "/out",
                                  "--target", "cpu", "--cpu-level", "x86-64-v3"});
  EXPECT_GT(fs::file_size(folder + "/out/weights.safetensors"), static_cast<size_t>(kWeights));
  fs::remove_all(folder);
  ASSERT_GT(peak, 0);
  // Both tables and the transposed one together would be 320 MB; the program itself needs 30.
  EXPECT_LT(peak, kWeights * 12 / 10 + 60 * kMegabyte) << peak / kMegabyte << " MB";
}

}  // namespace
}  // namespace fusec
