#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/src/context.h"
#include "runtime/src/cuda/cuda_device.h"
#include "runtime/src/program.h"
#include "tests/gpu/hand_made_artifact.h"
#include "tests/unit/runtime/fake_cuda.h"

namespace fusec::runtime {

// Tests with the model y[i] = x[i] + weights[i % 4], which computes the sum in the arena and then copies it.
class FakeGpuTest : public testing::Test {
 protected:
  void SetUp() override {
    FakeGpu::current = &gpu_;
    gpu_.kernels["k_add"] = {[](void** a, unsigned, unsigned) {
                               const auto* x = Argument<const float*>(a, 0);
                               const auto* weights = Argument<const float*>(a, 1);
                               auto* sum = Argument<float*>(a, 2);
                               for (int i = 0; i < Argument<int>(a, 3); ++i)
                                 sum[i] = x[i] + weights[i % 4];
                             },
                             {8, 8, 8, 4}};
    gpu_.kernels["k_copy"] = {[](void** a, unsigned, unsigned) {
                                std::memcpy(Argument<float*>(a, 1), Argument<const float*>(a, 0),
                                            static_cast<size_t>(Argument<int>(a, 2)) * 4);
                              },
                              {8, 8, 4}};
    made_.Symbol("batch", 0, 1 << 24);
    const int x = made_.Input("x", FUSEC_F32, {"batch"});
    const float values[] = {10, 20, 30, 40};
    const int weights = made_.Constant("weights", FUSEC_F32, 4, values);
    const int sum = made_.Arena("sum", FUSEC_F32, "batch");
    const int y = made_.Output("y", FUSEC_F32, {"batch"});
    made_.Kernel(
        {"k_add",
         "extern \"C\" __global__ void k_add(const float*, const float*, float*, int) {}\n",
         "floordiv(batch + 31, 32)",
         32,
         0,
         {"b0", "b1", "b2", "i:batch"},
         {x, weights},
         {sum}});
    made_.Kernel({"k_copy",
                  "extern \"C\" __global__ void k_copy(const float*, float*, int) {}\n",
                  "floordiv(batch + 31, 32)",
                  32,
                  0,
                  {"b2", "b3", "i:batch"},
                  {sum},
                  {y}});
    path_ = made_.Write("sm_90a", true);
    driver_ = gpu_.Driver();
  }
  void TearDown() override { EXPECT_EQ(gpu_.live, 0); }

  std::unique_ptr<Program> Load() {
    auto artifact = Artifact::Open(path_);
    EXPECT_TRUE(artifact);
    auto context = CudaContext::Create(driver_, 0);
    EXPECT_TRUE(context);
    auto device = CudaDevice::Create(**artifact, 0, std::move(*context));
    EXPECT_TRUE(device);
    return std::make_unique<Program>(std::move(*artifact), std::move(*device));
  }

  // Whether a context gives the right answer for host memory, and for device memory on a stream of the caller.
  static bool Runs(Context& context, const CudaDriver& driver, int64_t batch, float first) {
    std::vector<float> x(static_cast<size_t>(batch)), y(x.size());
    std::iota(x.begin(), x.end(), first);
    bool good = context.BindInput(0, x.data(), {&batch, 1}, false).has_value() &&
                context.BindOutput(0, nullptr, 0, false).has_value() && context.Run().has_value();
    const auto* kept = static_cast<const float*>(context.GetOutput(0).data);
    CUstream stream = nullptr;
    driver.cuStreamCreate(&stream, 0);
    good = good && context.BindOutput(0, y.data(), y.size() * 4, false).has_value() &&
           context.RunAsync(stream).has_value() && context.Synchronize().has_value();
    driver.cuStreamDestroy(stream);
    for (size_t i = 0; good && i < x.size(); ++i) {
      const float expected = x[i] + 10 * static_cast<float>(i % 4 + 1);
      good = y[i] == expected && kept != nullptr;
    }
    return good;
  }

  FakeGpu gpu_;
  CudaDriver driver_;
  HandMadeArtifact made_;
  std::string path_;
};

// Page-locked memory from AllocateHost for `size` floats.
class PinnedFloats {
 public:
  PinnedFloats(Program& program, size_t size) : program_(program), size_(size) {
    memory_ = static_cast<float*>(*program.device().AllocateHost(size * sizeof(float)));
  }
  ~PinnedFloats() { program_.device().FreeHost(memory_); }
  void Fill(float first) { std::iota(memory_, memory_ + size_, first); }
  float* data() { return memory_; }

 private:
  Program& program_;
  float* memory_;
  size_t size_;
};

inline void ExpectAnswer(const float* y, int64_t batch, float first) {
  for (int64_t i = 0; i < batch; ++i) {
    ASSERT_EQ(y[i], first + static_cast<float>(i) + 10 * static_cast<float>(i % 4 + 1)) << i;
  }
}

using Calls = std::map<std::string, int>;

}  // namespace fusec::runtime
