#include "runtime/src/cuda/cuda_weights.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "tests/gpu/hand_made_artifact.h"
#include "tests/unit/runtime/fake_cuda.h"

namespace fusec::runtime {
namespace {

TEST(CudaWeights, UploadsEveryByte) {
  FakeGpu gpu;
  FakeGpu::current = &gpu;
  const CudaDriver driver = gpu.Driver();
  std::vector<int32_t> large(18 << 20);  // many chunks and threads
  std::iota(large.begin(), large.end(), 0);
  HandMadeArtifact made;
  made.Input("x", FUSEC_F32, {"1"});
  made.Constant("small", FUSEC_I32, 3, large.data());
  made.Constant("empty", FUSEC_I32, 0, large.data());
  made.Constant("large", FUSEC_I32, static_cast<int64_t>(large.size()), large.data());
  const auto artifact = Artifact::Open(made.Write("sm_90a", false));
  ASSERT_TRUE(artifact) << artifact.error().message;
  {
    const auto context = CudaContext::Create(driver, 0);
    const auto weights = CudaWeights::Upload(**context, **artifact);
    ASSERT_TRUE(weights) << weights.error().message;
    EXPECT_EQ(weights->Address(0), 0u);
    EXPECT_EQ(std::memcmp(HostPointer(weights->Address(1)), large.data(), 12), 0);
    EXPECT_EQ(std::memcmp(HostPointer(weights->Address(3)), large.data(), large.size() * 4), 0);
    for (const int i : {1, 2, 3}) EXPECT_EQ(weights->Address(i) % 256, 0u);
    EXPECT_LE(gpu.most_pinned_bytes, size_t{64} << 20);  // 8 threads, 2 pieces of 4 MiB each
  }
  EXPECT_EQ(gpu.live, 0);
}

}  // namespace
}  // namespace fusec::runtime
