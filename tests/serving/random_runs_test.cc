// Random runs on a fake CUDA driver: FUSEC_PROPERTY_RUNS sets their number, FUSEC_PROPERTY_SEED the first seed.
#include "tests/gpu/random_runs.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/src/cuda/cuda_device.h"
#include "tests/property/seeds_to_run.h"
#include "tests/unit/runtime/fake_cuda.h"

namespace fusec::runtime {
namespace {

void AddKernels(FakeGpu& gpu) {
  const auto add = [](void** a, int count) {
    for (int i = 0; i < std::min(count, Argument<int>(a, 4)); ++i)
      Argument<float*>(a, 3)[i] = Argument<const float*>(a, 0)[i] +
                                  Argument<const float*>(a, 1)[i] +
                                  Argument<const float*>(a, 2)[i % 4];
  };
  gpu.kernels["k_few"] = {
      [=](void** a, unsigned blocks, unsigned) { add(a, int(blocks)); }, {8, 8, 8, 8, 4}, 8};
  gpu.kernels["k_many"] = {
      [=](void** a, unsigned blocks, unsigned size) { add(a, int(blocks * size)); },
      {8, 8, 8, 8, 4}};
  gpu.kernels["k_copy"] = {[](void** a, unsigned, unsigned) {
                             for (int i = 0; i < Argument<int>(a, 3); ++i) {
                               const float sum = Argument<const float*>(a, 0)[i];
                               Argument<float*>(a, 1)[i] = sum;
                               Argument<float*>(a, 2)[i] = 2 * sum;
                             }
                           },
                           {8, 8, 8, 4}};
}

// Takes random sequences of runs; one in `fails_one_in` driver calls fails.
void RunSequences(int fails_one_in) {
  constexpr int kSequences = 40, kSteps = 100;
  HandMadeArtifact made;
  RandomRuns::AddModel(made);
  const std::string path = made.Write("sm_90a", true);
  for (const uint64_t seed : SeedsToRun(kSequences)) {
    FakeGpu gpu;
    FakeGpu::current = &gpu;
    gpu.reuses_addresses = seed % 2 == 0;  // else sanitizers see what uses freed memory
    AddKernels(gpu);
    const uint64_t way = seed / 2 % 3;
    if (way == 1) {  // as an artifact without the runtime's kernels: nodes copy, the driver waits
      gpu.kernels.erase("copy_inputs");
      gpu.kernels.erase("end_run");
    }
    if (way == 2) setenv("FUSEC_CUDA_GRAPH", "0", 1);
    const CudaDriver driver = gpu.Driver();
    {
      auto artifact = std::move(*Artifact::Open(path));
      auto device = CudaDevice::Create(*artifact, 0, std::move(*CudaContext::Create(driver, 0)));
      unsetenv("FUSEC_CUDA_GRAPH");
      ASSERT_TRUE(device) << device.error().message;
      const auto context = std::move(*CudaContext::Create(driver, 0));
      Program program(std::move(artifact), std::move(*device));
      RandomRuns runs(program, *context, static_cast<unsigned>(seed),
                      [&](bool begins) { gpu.fails_one_in = begins ? fails_one_in : 0; });
      ASSERT_EQ(runs.Take(kSteps), "") << "seed " << seed;
      EXPECT_GE(runs.right_runs(), fails_one_in == 0 ? kSteps : kSteps / 2) << "seed " << seed;
    }
    EXPECT_EQ(gpu.live, 0);
  }
}

TEST(RandomRuns, GetRightAnswersWhateverRanBefore) { RunSequences(0); }

TEST(RandomRuns, GetRightAnswersAfterCallsThatFail) { RunSequences(30); }

}  // namespace
}  // namespace fusec::runtime
