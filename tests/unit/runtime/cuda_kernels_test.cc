#include "runtime/src/cuda/cuda_kernels.h"

#include <gtest/gtest.h>

#include "runtime/src/cuda/cublaslt.h"
#include "runtime/src/cuda/cuda_matmul_epilogue.h"
#include "runtime/src/cuda/nvrtc.h"

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

// Kernels "name" that serve sizes from..to (all, if from is 0 and to is 0) with shared memory, each of the same output.
std::vector<Step> StepsOf(const std::vector<std::tuple<std::string, int, int64_t, int64_t>>& kernels) {
  std::vector<Step> steps;
  for (const auto& [name, shared_bytes, from, to] : kernels) {
    Step& step = steps.emplace_back();
    step.name = name;
    step.kernel.shared_bytes = shared_bytes;
    step.outputs = {name[0]};
    if (to > 0) step.when = {DimExpression(), from, to};
  }
  return steps;
}

std::string TextOf(const std::vector<Step>& steps) {
  std::string text;
  for (const Step& step : steps) {
    text += step.name;
    if (step.when) text += " " + std::to_string(step.when->from) + ".." + std::to_string(step.when->to);
    text += "; ";
  }
  return text;
}

TEST(WithinSharedMemory, AnAlternativeServesTheSizesOfOneThatAsksForMore) {
  const auto steps = StepsOf({{"a1", 10, 0, 8}, {"a2", 200, 9, 99}, {"a3", 150, 100, 1000}, {"b", 300, 0, 0}, {"c1", 120, 0, 9},
                              {"c2", 130, 10, 19}, {"c3", 20, 20, 29}, {"d1", 500, 0, 5}, {"d2", 400, 6, 9}});
  EXPECT_EQ(TextOf(WithinSharedMemory(steps, 1000)), TextOf(steps));
  // The last of those that are all too large stays, for the error that names it.
  EXPECT_EQ(TextOf(WithinSharedMemory(steps, 100)), "a1 0..1000; b; c3 0..29; d2 0..9; ");
  EXPECT_EQ(TextOf(WithinSharedMemory(steps, 180)), "a1 0..99; a3 100..1000; b; c1 0..9; c2 10..19; c3 20..29; d2 0..9; ");
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
