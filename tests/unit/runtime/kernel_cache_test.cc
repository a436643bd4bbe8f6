#include "runtime/src/cuda/kernel_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

namespace fusec::runtime {
namespace {

namespace fs = std::filesystem;

class KernelCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/fusec-cache-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Get(const KernelCache& cache, const std::string& key, const std::string& value) {
    StatusOr<std::string> got = cache.GetOrMake(key, [&]() -> StatusOr<std::string> {
      ++made_;
      return value;
    });
    return got ? *got : "error: " + got.error().message;
  }

  std::string folder_;
  int made_ = 0;
};

TEST_F(KernelCacheTest, MakesOnceAndFindsAgain) {
  const KernelCache cache(folder_);
  EXPECT_EQ(Get(cache, "a", "one"), "one");
  EXPECT_EQ(Get(cache, "a", "two"), "one");
  EXPECT_EQ(Get(KernelCache(folder_), "a", "two"), "one");
  EXPECT_EQ(Get(cache, "b", "two"), "two");
  EXPECT_EQ(made_, 2);
}

TEST_F(KernelCacheTest, KeepsEmptyValuesAndZeroBytes) {
  const KernelCache cache(folder_);
  const std::string binary("a\0b\n", 4);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Get(cache, "empty", ""), "");
    EXPECT_EQ(Get(cache, "", binary), binary);
  }
  EXPECT_EQ(made_, 2);
}

TEST_F(KernelCacheTest, RemakesDamagedEntries) {
  const KernelCache cache(folder_);
  for (int damage = 0; damage < 4; ++damage) {
    EXPECT_EQ(Get(cache, "a", "good"), "good");
    const std::string path = cache.PathOf("a");
    std::string bytes(52, '\0');  // a header of 48 and the value
    std::ifstream(path, std::ios::binary).read(bytes.data(), 52);
    if (damage == 0) bytes[49] ^= 1;    // the value
    if (damage == 1) bytes[17] ^= 1;    // the hash
    if (damage == 2) bytes.resize(51);  // cut off
    if (damage == 3) bytes.clear();
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    made_ = 0;
    EXPECT_EQ(Get(cache, "a", "good"), "good");
    EXPECT_EQ(made_, 1) << damage;
  }
}

TEST_F(KernelCacheTest, KeepsNoErrors) {
  const KernelCache cache(folder_);
  const auto failed =
      cache.GetOrMake("a", []() -> StatusOr<std::string> { return Fail(FUSEC_NO_DEVICE, "no"); });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "no");
  EXPECT_EQ(Get(cache, "a", "one"), "one");
}

TEST_F(KernelCacheTest, WorksWithoutAFolder) {
  EXPECT_EQ(Get(KernelCache(""), "a", "one"), "one");
  std::ofstream(folder_ + "/file") << "x";
  EXPECT_EQ(Get(KernelCache(folder_ + "/file/below"), "a", "one"), "one");
  EXPECT_EQ(Get(KernelCache("/proc/none"), "a", "one"), "one");
}

TEST_F(KernelCacheTest, LeavesNothingBehindWhenManyWrite) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this] {
      const KernelCache cache(folder_);
      for (int j = 0; j < 20; ++j) {
        const std::string text = std::to_string(j);
        const auto got =
            cache.GetOrMake(text, [&]() -> StatusOr<std::string> { return text + text; });
        EXPECT_TRUE(got && *got == text + text);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
    files += entry.is_regular_file();
  }
  EXPECT_EQ(files, 20);
}

TEST_F(KernelCacheTest, TakesItsFolderFromTheEnvironment) {
  const char* home = std::getenv("HOME");
  const std::string old_home = home == nullptr ? "" : home;
  setenv("FUSEC_CACHE_DIR", "/one", 1);
  EXPECT_EQ(KernelCache::Default().folder(), "/one");
  unsetenv("FUSEC_CACHE_DIR");
  setenv("XDG_CACHE_HOME", "/two", 1);
  EXPECT_EQ(KernelCache::Default().folder(), "/two/fusec");
  setenv("XDG_CACHE_HOME", "relative", 1);
  setenv("HOME", "/three", 1);
  EXPECT_EQ(KernelCache::Default().folder(), "/three/.cache/fusec");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", "", 1);
  EXPECT_EQ(KernelCache::Default().folder(), "");
  setenv("HOME", old_home.c_str(), 1);
}

}  // namespace
}  // namespace fusec::runtime
