// Weights are written only once: compiling needs little more memory than the weights that it computes, however large the weights in files
// are.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>

#include "compiler/driver/artifact/tensor_files.h"
#include "compiler/support/child_process.h"

extern char** environ;

namespace fusec {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMegabyte = 1 << 20;

// A table that is used as stored, and one that constant folding transposes, both in a sparse file of zeros.
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

// The peak memory of a child process, or of a process for which it waited; -1 if it failed.
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

// A table of 64 columns in a file that has data in few places.
class SparseTable : public testing::Test {
 protected:
  static constexpr int64_t kColumns = 64, kRowBytes = kColumns * 4;

  void SetUp() override { folder_ = *MakeTemporaryFolder(); }
  void TearDown() override { fs::remove_all(folder_); }

  // The rows in `rows` have the numbers 1000 * row + column; all others are holes in the file, or zeros on the disk.
  std::string Write(const std::string& name, int64_t row_count, const std::vector<int64_t>& rows, bool is_sparse) const {
    const std::string path = folder_ + "/" + name;
    fs::create_directories(path);
    std::ofstream(path + "/model.onnxtxt") << R"(<ir_version: 10, opset_import: ["" : 18]>
g (int64[batch] ids) => (float[batch, 64] y)
<float[)" << row_count << R"(, 64] rows = ["location": "weights.bin", "offset": "0", "length": ")"
                                           << row_count * kRowBytes << R"("]>
{ y = Gather(rows, ids) }
)";
    std::ofstream file(path + "/weights.bin", std::ios::binary);
    if (is_sparse) {
      fs::resize_file(path + "/weights.bin", static_cast<uintmax_t>(row_count * kRowBytes));
    } else {
      const std::vector<char> zeros(kRowBytes);
      for (int64_t i = 0; i < row_count; ++i) file.write(zeros.data(), kRowBytes);
    }
    for (const int64_t row : rows) {
      file.seekp(row * kRowBytes);
      for (int64_t column = 0; column < kColumns; ++column) {
        const float x = Element(row, column);
        file.write(reinterpret_cast<const char*>(&x), sizeof x);
      }
    }
    return path;
  }
  static float Element(int64_t row, int64_t column) { return static_cast<float>(row % 1000 * 1000 + column + 1); }

  static int64_t Compile(const std::string& path) {
    return PeakBytes({FUSEC_PROGRAM, path + "/model.onnxtxt", "-o", path + "/out", "--target", "cpu", "--cpu-level", "x86-64-v3"});
  }
  static std::string Bytes(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder_;
};

// Hash and bytes are the same whether zeros were a hole or stored.
TEST_F(SparseTable, IsStoredAsTheZerosThatItReadsAs) {
  constexpr int64_t kRows = 100'003;  // 25.6 MB, which end within a page
  for (const std::vector<int64_t>& rows : {std::vector<int64_t>{}, {0, 50'000}, {kRows - 1}}) {
    const std::string sparse = Write("sparse", kRows, rows, true), dense = Write("dense", kRows, rows, false);
    ASSERT_GT(Compile(sparse), 0);
    ASSERT_GT(Compile(dense), 0);
    EXPECT_EQ(Bytes(sparse + "/out/manifest.json"), Bytes(dense + "/out/manifest.json"));
    EXPECT_EQ(Bytes(sparse + "/out/weights.safetensors"), Bytes(dense + "/out/weights.safetensors"));
    EXPECT_GT(PeakBytes({FUSEC_PROGRAM, "run", dense + "/out", "--random", "--output", folder_ + "/y"}), 0);
    fs::remove_all(sparse);
    fs::remove_all(dense);
  }
}

// Stored data are also hashed and copied piece by piece.
TEST_F(SparseTable, OfDataTakesNoMemoryEither) {
  constexpr int64_t kRows = 1'600'000;  // 410 MB
  constexpr int64_t kMost = 200 * kMegabyte;
  const std::string path = Write("dense", kRows, {}, true), out = path + "/out";
  {
    std::ofstream file(path + "/weights.bin", std::ios::binary);
    std::vector<float> row(kColumns);
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t column = 0; column < kColumns; ++column) row[static_cast<size_t>(column)] = Element(i, column);
      file.write(reinterpret_cast<const char*>(row.data()), kRowBytes);
    }
  }
  const int64_t compiled = Compile(path);
  ASSERT_GT(compiled, 0);
  EXPECT_LT(compiled, kMost) << compiled / kMegabyte << " MB";
  const int64_t ran = PeakBytes({FUSEC_PROGRAM, "run", out, "--device", "cpu", "--random", "--output", folder_ + "/y"});
  ASSERT_GT(ran, 0);
  EXPECT_LT(ran, kMost) << ran / kMegabyte << " MB";
}

TEST_F(SparseTable, MayBeLargerThanMemory) {
  constexpr int64_t kRows = 80'000'000;  // 20.5 GB
  constexpr int64_t kMost = 200 * kMegabyte;
  const std::vector<int64_t> rows = {0, 41'234'567, kRows - 1};
  const std::string path = Write("large", kRows, rows, true), out = path + "/out", y = folder_ + "/y";
  const int64_t compiled = Compile(path);
  ASSERT_GT(compiled, 0);
  EXPECT_LT(compiled, kMost) << compiled / kMegabyte << " MB";
  struct stat weights {};
  ASSERT_EQ(stat((out + "/weights.safetensors").c_str(), &weights), 0);
  EXPECT_GT(weights.st_size, kRows * kRowBytes);
  EXPECT_LT(weights.st_blocks * 512, 64 * kMegabyte);  // its holes are holes again
  const int64_t explained = PeakBytes({FUSEC_PROGRAM, "explain", out});
  EXPECT_GT(explained, 0);
  EXPECT_LT(explained, kMost) << explained / kMegabyte << " MB";
  ASSERT_TRUE(WriteNpy(folder_ + "/ids.npy", TensorData::From<int64_t>(Dtype::kI64, {4}, {rows[0], rows[1], rows[2], 7})));
  const int64_t ran = PeakBytes({FUSEC_PROGRAM, "run", out, "--device", "cpu", "--input", "ids=" + folder_ + "/ids.npy", "--output", y});
  ASSERT_GT(ran, 0);
  EXPECT_LT(ran, kMost) << ran / kMegabyte << " MB";
  const auto found = ReadNpy(y + "/y.npy");
  ASSERT_TRUE(found) << found.error().message;
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t column = 0; column < kColumns; ++column) {
      const float expected = i < 3 ? Element(rows[static_cast<size_t>(i)], column) : 0;
      EXPECT_EQ(found->GetDouble(i * kColumns + column), expected) << i << ", " << column;
    }
  }
}

}  // namespace
}  // namespace fusec
