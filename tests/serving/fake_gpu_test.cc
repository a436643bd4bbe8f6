// What the runtime asks of a CUDA driver it gives back, counted by a driver of our own.
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <sstream>
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

TEST_F(FakeGpuTest, AnArenaTooSmallForAKernelIsRefused) {
  std::ostringstream text;
  text << std::ifstream(path_ + "/manifest.json").rdbuf();
  auto manifest = HandMadeJson::parse(text.str());
  for (auto& buffer : manifest["buffers"]) {
    if (buffer["name"] == "sum") buffer["elements"] = "min(batch, 100)";
  }
  std::ofstream(path_ + "/manifest.json") << manifest;
  const auto program = Load();
  const auto context = std::move(*Context::Create(*program));
  EXPECT_TRUE(Runs(*context, driver_, 100, 1));
  const std::vector<float> x(101);
  const int64_t batch = 101;
  ASSERT_TRUE(context->BindInput(0, x.data(), {&batch, 1}, false));
  gpu_.calls.clear();
  const Status run = context->Run();
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code, FUSEC_BAD_ARTIFACT);
  EXPECT_EQ(run.error().message,
            "step \"k_add\" writes 404 bytes, 4 more than its buffers hold: \"sum\"");
  EXPECT_TRUE(gpu_.calls.empty());
  EXPECT_TRUE(Runs(*context, driver_, 7, 2));
}

// Memory of AllocateHost with room for `size` floats.
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

void ExpectAnswer(const float* y, int64_t batch, float first) {
  for (int64_t i = 0; i < batch; ++i) {
    ASSERT_EQ(y[i], first + static_cast<float>(i) + 10 * static_cast<float>(i % 4 + 1)) << i;
  }
}

using Calls = std::map<std::string, int>;

TEST_F(FakeGpuTest, ASmallRunOfLateIsFourCallsOfTheDriver) {
  const auto program = Load();
  auto context = std::move(*Context::Create(*program));
  std::vector<float> x(100);
  const int64_t batch = 100;
  for (const bool other_place : {false, true, false}) {
    std::vector<float> other = x;
    std::iota(other.begin(), other.end(), 5.0f);
    gpu_.calls.clear();
    ASSERT_TRUE(context->BindInput(0, other_place ? x.data() : other.data(), {&batch, 1}, false));
    ASSERT_TRUE(context->Run());
  }
  const Calls expected = {{"cuCtxPushCurrent", 1},
                          {"cuGraphLaunch", 1},
                          {"cuStreamSynchronize", 1},
                          {"cuCtxPopCurrent", 1}};
  EXPECT_EQ(gpu_.calls, expected);
  ExpectAnswer(static_cast<const float*>(context->GetOutput(0).data), batch, 5);
}

TEST_F(FakeGpuTest, PageLockedMemoryIsCopiedWithoutADetour) {
  const auto program = Load();
  auto context = std::move(*Context::Create(*program));
  constexpr int64_t kBatch = 400001;
  std::vector<std::unique_ptr<PinnedFloats>> x, y;
  for (int i = 0; i < 20; ++i) {
    x.push_back(std::make_unique<PinnedFloats>(*program, kBatch));
    y.push_back(std::make_unique<PinnedFloats>(*program, kBatch));
    x[i]->Fill(static_cast<float>(i));
  }
  const size_t pinned_bytes = gpu_.pinned_bytes;
  for (int i = 0; i < 20; ++i) {
    gpu_.calls.clear();
    ASSERT_TRUE(context->BindInput(0, x[i]->data(), {&kBatch, 1}, false));
    ASSERT_TRUE(context->BindOutput(0, y[i]->data(), kBatch * 4, false));
    ASSERT_TRUE(context->Run());
    ExpectAnswer(y[i]->data(), kBatch, static_cast<float>(i));
  }
  const Calls expected = {{"cuCtxPushCurrent", 1},    {"cuMemcpyHtoDAsync", 1},
                          {"cuGraphLaunch", 1},       {"cuMemcpyDtoHAsync", 1},
                          {"cuStreamSynchronize", 1}, {"cuCtxPopCurrent", 1}};
  EXPECT_EQ(gpu_.calls, expected);
  EXPECT_EQ(gpu_.built, 1);
  EXPECT_EQ(gpu_.patched, 0);
  EXPECT_EQ(gpu_.copies, 0);                   // by the graph
  EXPECT_EQ(gpu_.pinned_bytes, pinned_bytes);  // no staging
}

// The same address may be page-locked in one run and not in the next.
TEST_F(FakeGpuTest, AsksTheDriverWhatIsPageLocked) {
  const auto program = Load();
  auto context = std::move(*Context::Create(*program));
  constexpr int64_t kBatch = 400000;
  std::vector<float> x(kBatch), y(kBatch);
  ASSERT_TRUE(context->BindInput(0, x.data(), {&kBatch, 1}, false));
  ASSERT_TRUE(context->BindOutput(0, y.data(), kBatch * 4, false));
  for (int round = 0; round < 4; ++round) {
    const bool is_registered = round % 2 == 1;
    if (is_registered) gpu_.pinned[x.data()] = gpu_.pinned[y.data()] = kBatch * 4;
    std::iota(x.begin(), x.end(), static_cast<float>(round));
    gpu_.calls.clear();
    ASSERT_TRUE(context->Run());
    ExpectAnswer(y.data(), kBatch, static_cast<float>(round));
    EXPECT_EQ(gpu_.calls["cuMemcpyHtoDAsync"], is_registered ? 1 : 4);
    EXPECT_EQ(gpu_.calls["cuMemcpyDtoHAsync"], is_registered ? 1 : 4);
    EXPECT_EQ(gpu_.calls["cuEventSynchronize"], is_registered ? 0 : 4);
    gpu_.pinned.erase(x.data());
    gpu_.pinned.erase(y.data());
  }
  gpu_.pinned[x.data()] = kBatch * 4 - 4;  // all but the last element
  gpu_.calls.clear();
  ASSERT_TRUE(context->Run());
  EXPECT_EQ(gpu_.calls["cuMemcpyHtoDAsync"], 4);
  gpu_.pinned.erase(x.data());
  EXPECT_EQ(gpu_.built, 1);
}

TEST_F(FakeGpuTest, CopiesTensorsOfAllSizes) {
  setenv("FUSEC_NUM_THREADS", "4", 1);
  const auto program = Load();
  unsetenv("FUSEC_NUM_THREADS");
  auto context = std::move(*Context::Create(*program));
  for (const int64_t batch :
       {8191, 8192, 16384, 16385, 65535, 65536, 131072, 131073, 700001, 9 << 20}) {
    EXPECT_TRUE(Runs(*context, driver_, batch, 3)) << batch;
  }
}

TEST_F(FakeGpuTest, AnAsynchronousRunHasReadPageableInputsOnly) {
  const auto program = Load();
  for (const int64_t batch : {10, 20000, 400000}) {
    auto context = std::move(*Context::Create(*program));
    std::vector<float> x(static_cast<size_t>(batch));
    std::iota(x.begin(), x.end(), 1.0f);
    ASSERT_TRUE(context->BindInput(0, x.data(), {&batch, 1}, false));
    ASSERT_TRUE(context->RunAsync(context->executor().stream()));
    x.assign(x.size(), 0.0f);
    ASSERT_TRUE(context->Synchronize());
    ExpectAnswer(static_cast<const float*>(context->GetOutput(0).data), batch, 1);
  }
  // Page-locked ones are read when their turn comes, also where runs wait for each other.
  constexpr int64_t kBatch = 20000;
  auto context = std::move(*Context::Create(*program));
  PinnedFloats x(*program, kBatch), other_x(*program, kBatch);
  std::vector<std::unique_ptr<PinnedFloats>> y;
  for (int i = 0; i < 4; ++i) {
    CUstream stream = nullptr;
    if (i < 2) stream = static_cast<CUstream>(context->executor().stream());
    y.push_back(std::make_unique<PinnedFloats>(*program, kBatch));
    ASSERT_TRUE(context->BindInput(0, (i % 2 ? other_x : x).data(), {&kBatch, 1}, false));
    ASSERT_TRUE(context->BindOutput(0, y[i]->data(), kBatch * 4, false));
    ASSERT_TRUE(context->RunAsync(stream));
  }
  x.Fill(7);
  other_x.Fill(9);
  ASSERT_TRUE(context->Synchronize());
  for (int i = 0; i < 4; ++i) ExpectAnswer(y[i]->data(), kBatch, i % 2 ? 9 : 7);
}

// The results of an earlier run that lie in staging are not forgotten when a later one needs none.
TEST_F(FakeGpuTest, ResultsSurviveALaterRunWithoutStaging) {
  const auto program = Load();
  auto context = std::move(*Context::Create(*program));
  constexpr int64_t kBatch = 20000;
  PinnedFloats x(*program, kBatch), pinned(*program, kBatch);
  x.Fill(2);
  std::vector<float> y(kBatch);
  ASSERT_TRUE(context->BindInput(0, x.data(), {&kBatch, 1}, false));
  ASSERT_TRUE(context->BindOutput(0, y.data(), kBatch * 4, false));
  ASSERT_TRUE(context->RunAsync(nullptr));
  ASSERT_TRUE(context->BindOutput(0, pinned.data(), kBatch * 4, false));
  ASSERT_TRUE(context->RunAsync(nullptr));
  ASSERT_TRUE(context->Synchronize());
  ExpectAnswer(y.data(), kBatch, 2);
  ExpectAnswer(pinned.data(), kBatch, 2);
}

// Whoever is told of an error may free the memory that was bound.
TEST_F(FakeGpuTest, NothingIsEnqueuedAnyMoreWhenARunFails) {
  const auto program = Load();
  auto context = std::move(*Context::Create(*program));
  constexpr int64_t kBatch = 400000;
  auto x = std::make_unique<PinnedFloats>(*program, kBatch);
  ASSERT_TRUE(context->BindInput(0, x->data(), {&kBatch, 1}, false));
  const auto launch = std::exchange(driver_.cuGraphLaunch,
                                    [](CUgraphExec, CUstream) { return CUDA_ERROR_OUT_OF_MEMORY; });
  gpu_.calls.clear();
  EXPECT_FALSE(context->Run());
  EXPECT_EQ(gpu_.calls["cuMemcpyHtoDAsync"], 1);
  EXPECT_FALSE(context->RunAsync(nullptr));
  x.reset();  // the sanitizers see a copy that comes later
  EXPECT_TRUE(gpu_.null_stream.queue.empty());
  driver_.cuGraphLaunch = launch;
  EXPECT_TRUE(Runs(*context, driver_, kBatch, 4));
}

TEST_F(FakeGpuTest, ThreadsCopyLargeTensorsAtTheSameTime) {
  setenv("FUSEC_NUM_THREADS", "4", 1);
  const auto program = Load();
  unsetenv("FUSEC_NUM_THREADS");
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      auto context = Context::Create(*program);
      ASSERT_TRUE(context);
      for (int run = 0; run < 5; ++run) {
        EXPECT_TRUE(Runs(**context, driver_, 200000 + 50000 * run, static_cast<float>(thread)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
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
