#include "runtime/src/cuda_kernels.h"

#include <gtest/gtest.h>

#include "runtime/src/cublaslt.h"
#include "runtime/src/cuda_matmul_epilogue.h"
#include "runtime/src/nvrtc.h"

namespace fusec::runtime {
namespace {

Manifest WithTargets(const std::vector<std::string>& names) {
  Manifest manifest;
  for (const std::string& name : names) {
    manifest.targets[name].name = name;
    if (name != "cpu") manifest.targets[name].files["cubin"] = name + ".cubin";
  }
  return manifest;
}

std::string Chosen(const Manifest& manifest, int capability) {
  const auto choice = ChooseGpuTarget(manifest, capability);
  if (!choice) return "error: " + choice.error().message;
  return choice->target->name + (choice->machine_code_fits ? "" : " compiled");
}

TEST(ChooseGpuTarget, PrefersFittingMachineCode) {
  const Manifest manifest = WithTargets({"cpu", "sm_80", "sm_90", "sm_90a", "sm_100f"});
  EXPECT_EQ(Chosen(manifest, 90), "sm_90a");
  EXPECT_EQ(Chosen(manifest, 80), "sm_80");
  EXPECT_EQ(Chosen(manifest, 89), "sm_80");
  EXPECT_EQ(Chosen(manifest, 100), "sm_100f");
  EXPECT_EQ(Chosen(manifest, 103), "sm_100f");
  EXPECT_EQ(Chosen(manifest, 120), "sm_100f compiled");
  EXPECT_EQ(Chosen(manifest, 75), "sm_80 compiled");
  EXPECT_EQ(Chosen(WithTargets({"sm_90a"}), 100), "sm_90a compiled");
}

TEST(ChooseGpuTarget, CompilesWhereThereIsNoMachineCode) {
  Manifest manifest = WithTargets({"sm_90a"});
  manifest.targets["sm_90a"].files.clear();
  EXPECT_EQ(Chosen(manifest, 90), "sm_90a compiled");
  EXPECT_EQ(Chosen(WithTargets({"cpu", "sm_x", "sm_90b"}), 90).substr(0, 6), "error:");
}

TEST(NvrtcArchitecture, IsTextForTheDriverWhereNvrtcIsOlder) {
  const std::vector<int> supported = {75, 80, 90, 100};
  EXPECT_EQ(*NvrtcArchitecture(80, supported), "sm_80");
  EXPECT_EQ(*NvrtcArchitecture(90, supported), "sm_90a");
  EXPECT_EQ(*NvrtcArchitecture(130, supported), "compute_100");
  EXPECT_EQ(*NvrtcArchitecture(89, supported), "compute_80");
  EXPECT_FALSE(NvrtcArchitecture(70, supported));
}

TEST(AlignmentOf, IsAPowerOfTwoUpTo256) {
  EXPECT_EQ(AlignmentOf(0), 256u);
  EXPECT_EQ(AlignmentOf(0x1000), 256u);
  EXPECT_EQ(AlignmentOf(0x1002), 2u);
  EXPECT_EQ(AlignmentOf(0x1030), 16u);
  EXPECT_EQ(AlignmentOf(0x1001), 1u);
}

TEST(MatmulEpilogueSource, CompilesForEveryDtype) {
  for (const fusec_dtype dtype : {FUSEC_F32, FUSEC_F16, FUSEC_BF16, FUSEC_F64}) {
    for (const char* arch : {"sm_75", "sm_90a"}) {
      const auto cubin =
          (*Nvrtc::Get())->CompileToCubin("epilogue.cu", MatmulEpilogueSource(dtype), arch);
      EXPECT_TRUE(cubin) << cubin.error().message;
    }
  }
}

}  // namespace
}  // namespace fusec::runtime
