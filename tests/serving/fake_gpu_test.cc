// The runtime frees everything that it allocates from the CUDA driver, as counted by a fake driver.
#include "tests/serving/fake_gpu_test.h"

#include <fstream>
#include <sstream>
#include <thread>

#include "tests/serving/served_model.h"

namespace fusec::runtime {
namespace {

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

HandMadeJson ReadManifest(const std::string& artifact) {
  std::ostringstream text;
  text << std::ifstream(artifact + "/manifest.json").rdbuf();
  return HandMadeJson::parse(text.str());
}

TEST_F(FakeGpuTest, AStepMayLaunchTheFunctionOfAnother) {
  auto manifest = ReadManifest(path_);
  for (auto& [name, target] : manifest["targets"].items()) {
    for (auto& step : target["steps"]) {
      if (step["name"] == "k_add") step.update({{"name", "k_add_again"}, {"function", "k_add"}});
    }
  }
  std::ofstream(path_ + "/manifest.json") << manifest;
  const auto program = Load();
  EXPECT_TRUE(Runs(**Context::Create(*program), driver_, 100, 1));
}

TEST_F(FakeGpuTest, AnArenaTooSmallForAKernelIsRefused) {
  auto manifest = ReadManifest(path_);
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
  x.reset();  // the sanitizers would detect a later copy
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
