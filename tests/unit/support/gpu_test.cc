#include "compiler/support/gpu.h"

#include <gtest/gtest.h>

#include <string>

namespace fusec {
namespace {

TEST(Gpu, IsFoundByItsNameThenByItsCapability) {
  EXPECT_EQ(FindGpu("sm_90a")->architecture, "sm_90a");
  EXPECT_TRUE(FindGpu("sm_90a")->has.warpgroup_products);
  EXPECT_FALSE(FindGpu("sm_90")->has.warpgroup_products);
  EXPECT_EQ(FindGpu("sm_120f")->architecture, "sm_120");
  for (const char* other : {"sm_10", "cpu", "sm_", "90", ""}) EXPECT_EQ(FindGpu(other), nullptr);
}

TEST(Gpu, IsTheNewestThatIsNotNewerWhereTheTableHasNone) {
  EXPECT_EQ(GpuFor("sm_101").capability, 100);
  EXPECT_EQ(GpuFor("sm_999").capability, 121);
  EXPECT_EQ(GpuFor("sm_12").capability, 75);
}

TEST(Gpu, HasNumbersThatGoTogether) {
  int capability = 0;
  for (const char* name : {"sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100",
                           "sm_100a", "sm_103", "sm_110", "sm_120", "sm_121"}) {
    const Gpu& gpu = GpuFor(name);
    EXPECT_EQ(gpu.architecture, name);
    EXPECT_GE(gpu.capability, capability) << "in ascending order";
    capability = gpu.capability;
    EXPECT_TRUE(std::string(name).starts_with("sm_" + std::to_string(capability)));
    EXPECT_LE(gpu.block_shared_bytes, gpu.shared_bytes);
    EXPECT_GE(gpu.block_shared_bytes, 48 << 10);
    EXPECT_EQ(gpu.has.tensor_cores, gpu.card->tf32_flops > 0);
    EXPECT_GE(gpu.card->f16_flops, gpu.card->f32_flops);
    EXPECT_TRUE(gpu.has.clusters || !gpu.has.warpgroup_products);
  }
}

// The GPUs on which measurements were made.
TEST(Gpu, OfAnH100OrH200Has132Multiprocessors) {
  EXPECT_EQ(GpuFor("sm_90a").multiprocessors(), 132);
}

}  // namespace
}  // namespace fusec
