#include "runtime/src/cuda/nvidia_library.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace fusec::runtime {
namespace {

namespace fs = std::filesystem;

TEST(NvidiaLibrary, WheelsOfSetUpAreFoundFromTheBuildTreeOnly) {
  const fs::path checkout = fs::path(testing::TempDir()) / "nvidia_library_test";
  fs::remove_all(checkout);
  const fs::path wheels = checkout / ".deps/venv/lib/python3.11/site-packages/nvidia/cu13/lib";
  fs::create_directories(wheels);
  fs::create_directories(checkout / "build");
  const auto found_from = [&](const char* own) { return SetUpWheelFolders(checkout / own); };
  for (const char* own : {"build", "bin", "lib"}) EXPECT_TRUE(found_from(own).empty()) << own;

  std::ofstream(checkout / "build/CMakeCache.txt") << "# of CMake";
  const std::vector<std::string> expected = {wheels};
  for (const char* own : {"build", "build/runtime", "build/tests", "build/tests/gpu"}) {
    EXPECT_EQ(found_from(own), expected) << own;
  }
  for (const char* own : {"bin", "lib", "build/python/a/b"}) {
    EXPECT_TRUE(found_from(own).empty()) << own;
  }
  fs::remove_all(checkout);
}

}  // namespace
}  // namespace fusec::runtime
