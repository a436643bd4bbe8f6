#include "runtime/src/cuda/nvrtc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "runtime/src/cuda/nvidia_library.h"

namespace fusec::runtime {
namespace {

constexpr char kAdd[] =
    R"(extern "C" __global__ void add(const float* a, const float* b, float* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
)";

TEST(Nvrtc, CompilesForEveryArchitectureAsked) {
  const auto nvrtc = Nvrtc::Get();
  ASSERT_TRUE(nvrtc) << nvrtc.error().message;
  EXPECT_GE((*nvrtc)->major(), 13);
  for (const char* arch : {"sm_80", "sm_90a", "sm_100"}) {
    const auto cubin = (*nvrtc)->CompileToCubin("add.cu", kAdd, arch);
    ASSERT_TRUE(cubin) << cubin.error().message;
    EXPECT_EQ(cubin->substr(1, 3), "ELF");
    EXPECT_NE(cubin->find("add"), std::string::npos);
  }
  const auto& capabilities = (*nvrtc)->supported_capabilities();
  EXPECT_TRUE(std::find(capabilities.begin(), capabilities.end(), 90) != capabilities.end());
}

TEST(Nvrtc, WritesPtx) {
  const auto ptx = (*Nvrtc::Get())->CompileToPtx("add.cu", kAdd, "compute_80");
  ASSERT_TRUE(ptx) << ptx.error().message;
  EXPECT_NE(ptx->find(".entry add"), std::string::npos);
}

TEST(Nvrtc, ErrorsHoldTheLogWithItsLine) {
  const auto cubin =
      (*Nvrtc::Get())
          ->CompileToCubin("k01_wrong.cu",
                           "extern \"C\" __global__ void wrong(float* a) {\n  a[0] = b;\n}\n",
                           "sm_90a");
  ASSERT_FALSE(cubin);
  EXPECT_EQ(cubin.error().code, FUSEC_NO_DEVICE);
  EXPECT_NE(cubin.error().message.find("k01_wrong.cu(2): error"), std::string::npos)
      << cubin.error().message;
  EXPECT_NE(cubin.error().message.find("\"b\""), std::string::npos);
}

TEST(Nvrtc, RefusesAnUnknownArchitecture) {
  const auto cubin = (*Nvrtc::Get())->CompileToCubin("add.cu", kAdd, "sm_12345");
  ASSERT_FALSE(cubin);
  EXPECT_NE(cubin.error().message.find("sm_12345"), std::string::npos);
}

TEST(Nvrtc, CompilesInSeveralThreadsAndAlwaysTheSame) {
  std::vector<std::string> cubins(4);
  std::vector<std::thread> threads;
  for (std::string& cubin : cubins) {
    threads.emplace_back([&cubin] {
      const auto result = (*Nvrtc::Get())->CompileToCubin("add.cu", kAdd, "sm_90a");
      if (result) cubin = *result;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& cubin : cubins) {
    EXPECT_FALSE(cubin.empty());
    EXPECT_EQ(cubin, cubins[0]);
  }
}

TEST(Nvrtc, TheCacheGivesTheSameBytes) {
  char folder[] = "/tmp/fusec-nvrtc-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  setenv("FUSEC_CACHE_DIR", folder, 1);
  const auto first = CompileCached("add.cu", kAdd, "sm_90a");
  const auto second = CompileCached("add.cu", kAdd, "sm_90a");
  const auto other = CompileCached("add.cu", kAdd, "sm_80");
  unsetenv("FUSEC_CACHE_DIR");
  ASSERT_TRUE(first && second && other);
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(*first, *(*Nvrtc::Get())->CompileToCubin("add.cu", kAdd, "sm_90a"));
  EXPECT_NE(*first, *other);
  std::filesystem::remove_all(folder);
}

TEST(NvidiaLibrary, NamesAllThatItTried) {
  setenv("FUSEC_NO_SUCH", "/nowhere/libx.so", 1);
  auto library = OpenNvidiaLibrary("libfusec-none.so.13", "FUSEC_NO_SUCH");
  ASSERT_FALSE(library);
  EXPECT_EQ(library.error().code, FUSEC_NO_DEVICE);
  EXPECT_NE(library.error().message.find("/nowhere/libx.so: not there"), std::string::npos);
  EXPECT_EQ(library.error().message.find("/usr/local"), std::string::npos);
  unsetenv("FUSEC_NO_SUCH");
  library = OpenNvidiaLibrary("libfusec-none.so.13", "FUSEC_NO_SUCH");
  ASSERT_FALSE(library);
  EXPECT_NE(library.error().message.find("/usr/local/cuda/lib64/libfusec-none.so.13"),
            std::string::npos);
  EXPECT_NE(library.error().message.find("FUSEC_NO_SUCH"), std::string::npos);
}

}  // namespace
}  // namespace fusec::runtime
