// The same model gives an artifact with the same bytes, whatever the folder, the time, the user, the locale, the time zone, the number of
// CPUs and the state of the kernel cache.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "compiler/support/child_process.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;

// Every file of a folder, by its path inside it.
std::map<std::string, std::string> Contents(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files[fs::relative(entry.path(), folder)] = {std::istreambuf_iterator<char>(file),
                                                 std::istreambuf_iterator<char>()};
  }
  return files;
}

class Determinism : public testing::Test {
 protected:
  void SetUp() override { root_ = *MakeTemporaryFolder(); }
  void TearDown() override { fs::remove_all(root_); }

  // Compiles in the folder `where`, with the temporary files there too.
  std::map<std::string, std::string> Compile(const std::string& where, const std::string& model,
                                             const std::string& cache, const std::string& out,
                                             const std::vector<std::string>& surroundings = {}) {
    const std::string folder = root_ + "/" + where;
    fs::create_directories(folder);
    std::vector<std::string> words = {"env", "-C", folder, "TMPDIR=" + folder,
                                      "FUSEC_CACHE_DIR=" + root_ + "/" + cache};
    words.insert(words.end(), surroundings.begin(), surroundings.end());
    for (const std::string& word : {std::string(FUSEC_PROGRAM), model, std::string("-o"), out,
                                    std::string("--target"), std::string("cpu,sm_90a")})
      words.push_back(word);
    const ChildResult child = RunChild(words);
    EXPECT_EQ(child.exit_code, 0) << child.errors;
    return Contents(fs::path(folder) / out);
  }
  static void ExpectEqual(const std::map<std::string, std::string>& first,
                          const std::map<std::string, std::string>& second) {
    EXPECT_EQ(first.size(), second.size());
    for (const auto& [path, bytes] : first) {
      const auto other = second.find(path);
      ASSERT_NE(other, second.end()) << path;
      EXPECT_TRUE(bytes == other->second) << path << " differs";
    }
  }
  std::string root_;
};

TEST_F(Determinism, SameBytesForTheSameModel) {
  for (const std::string name : {"dlrm_dot.dynamo.onnx", "lora_block.ts.onnx"}) {
    const std::string model = FUSEC_SOURCE_DIR "/models/" + name;
    const auto first = Compile("here", model, "cache1" + name, "out");
    for (const char* path : {"manifest.json", "weights.safetensors", "cpu/kernels-x86-64-v3.so",
                             "cpu/kernels-x86-64-v4.so", "cubin/sm_90a.cubin"}) {
      EXPECT_EQ(first.count(path), 1u) << path;
    }
    // A copy of the model by a relative path, other folders, an empty cache.
    const std::string copy = root_ + "/a/longer/path";
    fs::create_directories(copy);
    fs::copy_file(model, copy + "/" + name, fs::copy_options::overwrite_existing);
    ExpectEqual(first, Compile("a/longer/path", name, "cache2" + name, "other_" + name));
    // Another user with another home and locale, far away, with one CPU.
    ExpectEqual(first, Compile("there", model, "cache3" + name, "out",
                               {"HOME=" + root_, "USER=other", "LOGNAME=other", "LC_ALL=de_DE.UTF-8",
                                "LANG=tr_TR.UTF-8", "TZ=Pacific/Chatham", "taskset", "-c", "0"}));
    // From the cache, overwriting the existing artifact.
    ExpectEqual(first, Compile("here", model, "cache1" + name, "out"));
  }
}

}  // namespace
}  // namespace fusec
