// What the runtime asks of a CUDA driver it gives back, counted by a driver of our own.
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "runtime/src/context.h"
#include "runtime/src/cuda_device.h"
#include "runtime/src/program.h"
#include "tests/gpu/hand_made_artifact.h"
#include "tests/serving/served_model.h"
#include "tests/unit/runtime/fake_cuda.h"

namespace fusec::runtime {
namespace {

template <class T>
T Argument(void** arguments, int i) {
  return *static_cast<T*>(arguments[i]);
}

// y[i] = x[i] + weights[i % 4], with the sum in the arena before it is copied.
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
    made_.Symbol("batch", 0, 1 << 20);
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

  // Whether a context gives the right answer for host memory and for device memory on a stream of
  // the caller's.
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

TEST_F(FakeGpuTest, TenThreadsShareAProgram) {
  const auto program = Load();
  const int live = gpu_.live;  // kernels and weights, which no context adds to
  const size_t free_bytes = gpu_.free_bytes;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 10; ++thread) {
    threads.emplace_back([&, thread] {
      for (int round = 0; round < 5; ++round) {
        auto context = Context::Create(*program);
        ASSERT_TRUE(context);
        for (int run = 0; run < 20; ++run) {
          const int64_t batch = 1 + (37 * thread + 11 * run) % 100;
          EXPECT_TRUE(Runs(**context, driver_, batch, static_cast<float>(1000 * thread + run)));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(gpu_.live, live);
  EXPECT_EQ(gpu_.free_bytes, free_bytes);
}

TEST_F(FakeGpuTest, AContextCopiesNoWeights) {
  const auto program = Load();
  const size_t free_bytes = gpu_.free_bytes;
  std::vector<std::unique_ptr<Context>> contexts;
  for (int i = 0; i < 100; ++i) {
    auto context = Context::Create(*program);
    ASSERT_TRUE(context);
    contexts.push_back(std::move(*context));
  }
  EXPECT_EQ(gpu_.free_bytes, free_bytes);  // the arena comes with the first run
  ASSERT_TRUE(Runs(*contexts[7], driver_, 64, 1));
  EXPECT_LT(free_bytes - gpu_.free_bytes, size_t{4} << 20);  // arena and staging, with room to grow
}

TEST_F(FakeGpuTest, EveryContextSaysWhyTheProgramIsUnusable) {
  const auto program = Load();
  std::vector<std::unique_ptr<Context>> contexts;
  for (int i = 0; i < 3; ++i) contexts.push_back(std::move(*Context::Create(*program)));
  const int64_t batch = 3;
  const float x[] = {1, 2, 3};
  for (const auto& context : contexts) ASSERT_TRUE(context->BindInput(0, x, {&batch, 1}, false));
  ASSERT_TRUE(contexts[1]->Run());  // the last one has not run yet
  gpu_.next_wait = CUDA_ERROR_ILLEGAL_ADDRESS;
  ASSERT_FALSE(contexts[0]->Run());
  for (const auto& context : contexts) {
    const Status run = context->Run();
    ASSERT_FALSE(run);
    EXPECT_EQ(run.error().code, FUSEC_NO_DEVICE);
    EXPECT_EQ(run.error().message.find("the program is unusable since an earlier device error: "),
              0u)
        << run.error().message;
  }
  EXPECT_FALSE(Context::Create(*program));
}

TEST_F(FakeGpuTest, OutOfMemoryInOneContextLeavesTheOthersAlone) {
  const auto program = Load();
  auto small = Context::Create(*program), large = Context::Create(*program);
  ASSERT_TRUE(Runs(**small, driver_, 10, 1));
  const size_t free_bytes = std::exchange(gpu_.free_bytes, 1024);
  const std::vector<float> x(1 << 18);
  const int64_t batch = 1 << 18;
  ASSERT_TRUE((*large)->BindInput(0, x.data(), {&batch, 1}, false));
  const Status run = (*large)->Run();
  ASSERT_FALSE(run);
  EXPECT_NE(run.error().message.find("out of GPU memory for the arena of a context"),
            std::string::npos)
      << run.error().message;
  EXPECT_TRUE(Runs(**small, driver_, 10, 2));
  gpu_.free_bytes += free_bytes - 1024;
  EXPECT_TRUE(Runs(**large, driver_, 1 << 18, 3));
}

TEST_F(FakeGpuTest, LoadRunAndUnloadAThousandTimes) {
  int64_t resident = 0;
  for (int round = 0; round < 1000; ++round) {
    if (round == 100) resident = serving::ResidentBytes();
    const auto program = Load();
    auto context = Context::Create(*program);
    ASSERT_TRUE(context);
    ASSERT_TRUE(Runs(**context, driver_, 1 + round % 50, 1)) << round;
    context->reset();
  }
  EXPECT_EQ(gpu_.live, 0);
  EXPECT_TRUE(gpu_.allocations.empty());
  const int64_t grown = serving::ResidentBytes() - resident;
  if (serving::kResidentBytesMeanSomething) {
    EXPECT_LT(grown, int64_t{1} << 20);
  }
}

}  // namespace
}  // namespace fusec::runtime
