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

// Kernels "name" for sizes from..to (all sizes if both are 0) with shared memory, which all make the same output.
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
  // If all are too large, the last one stays, so that the error can name it.
  EXPECT_EQ(TextOf(WithinSharedMemory(steps, 100)), "a1 0..1000; b; c3 0..29; d2 0..9; ");
  EXPECT_EQ(TextOf(WithinSharedMemory(steps, 180)), "a1 0..99; a3 100..1000; b; c1 0..9; c2 10..19; c3 20..29; d2 0..9; ");
}

TEST(ForMultiprocessors, RangesThatBeginBehindAWaveMove) {
  auto steps = StepsOf({{"a1", 0, 0, 8}, {"a2", 0, 9, 132}, {"a3", 0, 133, 1056}, {"a4", 0, 1057, 1999}, {"b", 0, 0, 0}});
  for (const int i : {2, 3}) steps[i].when->by_waves = true;
  EXPECT_EQ(TextOf(ForMultiprocessors(steps, 132, 132)), TextOf(steps));
  EXPECT_EQ(TextOf(ForMultiprocessors(steps, 0, 16)), TextOf(steps));  // an artifact that does not tell
  EXPECT_EQ(TextOf(ForMultiprocessors(steps, 132, 66)), "a1 0..8; a2 9..66; a3 67..528; a4 529..1999; b; ");
  // With few multiprocessors, a wave is full before the second one begins, but the kernels for few rows keep their sizes; with many, the
  // last kernel is never needed.
  EXPECT_EQ(TextOf(ForMultiprocessors(steps, 132, 4)), "a1 0..8; a2 9..9; a3 10..32; a4 33..1999; b; ");
  EXPECT_EQ(TextOf(ForMultiprocessors(steps, 132, 264)), "a1 0..8; a2 9..264; a3 265..1999; b; ");
  steps[3].when = {DimExpression(), 1057, INT64_MAX, true};
  EXPECT_EQ(TextOf(ForMultiprocessors(steps, 132, 1)), "a1 0..8; a2 9..9; a4 10..9223372036854775807; b; ");
  steps[2].when->to = INT64_MAX - 1;
  steps[3].when->from = INT64_MAX;
  EXPECT_EQ(TextOf(ForMultiprocessors(steps, 132, 144)),
            "a1 0..8; a2 9..144; a3 145..9223372036854775806; a4 9223372036854775807..9223372036854775807; b; ");
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
