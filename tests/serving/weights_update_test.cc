// Weights are updated during runs: each run sees one set of weights, whatever is enqueued before and after it, and an update that fails
// changes nothing.
//
//   FUSEC_TEST_SECONDS=10                       instead of one second
//   FUSEC_TEST_DEVICE=cuda                      on the first GPU
//   FUSEC_TEST_PLACEMENT=host                   with its tables in host memory
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <thread>

#include "tests/serving/fake_gpu_test.h"
#include "tests/serving/other_weights.h"
#include "tests/serving/served_model.h"

namespace fusec {
namespace {

using serving::WithOtherWeights;

// With the weights in GPU memory, or in host memory.
class FakeGpuUpdate : public runtime::FakeGpuTest, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    FakeGpuTest::SetUp();
    if (!GetParam()) return;
    made_.PlaceOnHost(1);
    path_ = made_.Write("sm_90a", true);
  }
  static constexpr int64_t kBatch = 100;

  // A run of 1, 2, 3, ... on the context's own stream, or on one of the caller.
  static void Start(runtime::Context& context, const std::vector<float>& x, std::vector<float>& y,
                    CUstream stream) {
    ASSERT_TRUE(context.BindInput(0, x.data(), {&kBatch, 1}, false));
    ASSERT_TRUE(context.BindOutput(0, y.data(), y.size() * sizeof(float), false));
    ASSERT_TRUE(context.RunAsync(stream));
  }
  // The factor by which the weights of y = x + weights were multiplied.
  static float Factor(const std::vector<float>& x, const std::vector<float>& y) {
    const float factor = (y[0] - x[0]) / 10;
    for (size_t i = 0; i < x.size(); ++i) {
      if (y[i] != x[i] + factor * 10 * static_cast<float>(i % 4 + 1)) return -1;
    }
    return factor;
  }

  const std::vector<float> x_ = std::vector<float>(kBatch, 3);
};

TEST_P(FakeGpuUpdate, RunsSeeTheWeightsOfTheirTurn) {
  const std::string other = WithOtherWeights(path_, path_ + ".other", 2);
  const auto program = Load();
  CUstream stream = nullptr;
  driver_.cuStreamCreate(&stream, 0);
  {
    const auto own = *runtime::Context::Create(*program);
    const auto given = *runtime::Context::Create(*program);
    const auto late = *runtime::Context::Create(*program);
    for (int round = 0; round < 3; ++round) {
      std::vector<float> y_own(kBatch), y_given(kBatch), y_late(kBatch);
      const float before = round % 2 == 0 ? 1 : 2, after = 3 - before;
      // The fake GPU executes nothing until something waits for it.
      Start(*own, x_, y_own, static_cast<CUstream>(own->executor().stream()));
      Start(*given, x_, y_given, stream);
      ASSERT_TRUE(program->UpdateWeights(round % 2 == 0 ? other : path_));
      Start(*late, x_, y_late, stream);
      for (const auto* context : {&own, &given, &late}) ASSERT_TRUE((*context)->Synchronize());
      EXPECT_EQ(Factor(x_, y_own), before);
      EXPECT_EQ(Factor(x_, y_given), before);
      EXPECT_EQ(Factor(x_, y_late), after);
      Start(*own, x_, y_own, static_cast<CUstream>(own->executor().stream()));
      Start(*given, x_, y_given, stream);
      for (const auto* context : {&own, &given}) ASSERT_TRUE((*context)->Synchronize());
      EXPECT_EQ(Factor(x_, y_own), after);
      EXPECT_EQ(Factor(x_, y_given), after);
    }
  }
  driver_.cuStreamDestroy(stream);
  std::filesystem::remove_all(other);
}

TEST_P(FakeGpuUpdate, CapturesNoGraphAgainAndCopiesWhatChanged) {
  const std::string other = WithOtherWeights(path_, path_ + ".other", 2);
  const auto program = Load();
  {
    const auto context = *runtime::Context::Create(*program);
    std::vector<float> y(kBatch);
    const auto run = [&] {
      Start(*context, x_, y, static_cast<CUstream>(context->executor().stream()));
      return context->Synchronize().has_value();
    };
    ASSERT_TRUE(run());
    gpu_.calls.clear();
    ASSERT_TRUE(program->UpdateWeights(other));
    ASSERT_TRUE(run());
    EXPECT_EQ(Factor(x_, y), 2);
    EXPECT_EQ(gpu_.calls["cuGraphInstantiate"], 0);
    EXPECT_EQ(gpu_.calls["cuMemcpyDtoDAsync"], GetParam() ? 0 : 1);
    EXPECT_EQ(gpu_.calls["cuLaunchHostFunc"], GetParam() ? 1 : 0);
    gpu_.calls.clear();
    ASSERT_TRUE(program->UpdateWeights(other));  // nothing is other
    EXPECT_EQ(gpu_.calls["cuMemcpyDtoDAsync"] + gpu_.calls["cuLaunchHostFunc"], 0);
  }
  std::filesystem::remove_all(other);
}

TEST_P(FakeGpuUpdate, KeepsTheOldWeightsAfterAnError) {
  const std::string other = WithOtherWeights(path_, path_ + ".other", 2);
  const auto program = Load();
  {
    const auto context = *runtime::Context::Create(*program);
    driver_.cuMemAlloc = [](CUdeviceptr*, size_t) { return CUDA_ERROR_OUT_OF_MEMORY; };
    driver_.cuLaunchHostFunc = [](CUstream, CUhostFn, void*) { return CUDA_ERROR_OUT_OF_MEMORY; };
    const auto full = program->UpdateWeights(other);
    driver_ = gpu_.Driver();
    ASSERT_FALSE(full);
    EXPECT_EQ(full.error().code, FUSEC_NO_DEVICE);
    std::ofstream(other + "/weights.safetensors", std::ios::app) << "x";
    const auto damaged = program->UpdateWeights(other);
    ASSERT_FALSE(damaged);
    EXPECT_EQ(damaged.error().code, FUSEC_BAD_ARTIFACT);
    EXPECT_TRUE(Runs(*context, driver_, kBatch, 1));
  }
  std::filesystem::remove_all(other);
}

TEST_P(FakeGpuUpdate, RefusesAnotherProgram) {
  const auto program = Load();
  const std::string other = WithOtherWeights(path_, path_ + ".other", 2);
  std::ifstream file(other + "/manifest.json");
  auto manifest = nlohmann::ordered_json::parse(file);
  manifest["targets"]["sm_90a"]["steps"][0]["block_size"] = 64;
  std::ofstream(other + "/manifest.json") << manifest;
  const auto updated = program->UpdateWeights(other);
  ASSERT_FALSE(updated);
  EXPECT_EQ(updated.error().code, FUSEC_BAD_ARTIFACT);
  EXPECT_EQ(updated.error().message,
            other + ": is not the loaded program with other weights, its steps are others");
  std::filesystem::remove_all(other);
}

INSTANTIATE_TEST_SUITE_P(Placement, FakeGpuUpdate, testing::Bool(),
                         [](const auto& on_host) { return on_host.param ? "Host" : "Device"; });

using Clock = std::chrono::steady_clock;
using serving::Request;

// Threads run all the time while the weights change back and forth.
class UpdatesUnderLoad : public testing::Test {
 protected:
  static constexpr int kThreads = 6, kRequests = 12;

  void SetUp() override {
    program_.UpdateWeights(other_);
    with_other_ = serving::MakeRequests(program_, kRequests);
    program_.UpdateWeights(serving::ServedArtifact());
  }
  void TearDown() override { std::filesystem::remove_all(other_); }

  static bool Answers(Context& context, const Request& request) {
    for (size_t i = 0; i < request.answers.size(); ++i) {
      if (!serving::IsAnswer(request, i, context.Output<float>(static_cast<int>(i)).data()))
        return false;
    }
    return true;
  }

  void Serve(int thread) {
    Context context(program_);
    std::vector<double> us;
    for (size_t run = static_cast<size_t>(thread); !is_over_; ++run) {
      const size_t number = run % kRequests;
      const auto start = Clock::now();
      serving::Bind(context, requests_[number]);
      context.Run();
      us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
      const bool is_first = Answers(context, requests_[number]);
      const bool is_other = Answers(context, with_other_[number]);
      if (is_first == is_other) ++torn_;
      ++(is_first ? first_ : others_);
    }
    const std::lock_guard lock(mutex_);
    us_.insert(us_.end(), us.begin(), us.end());
  }

  // Returns how many updates there were, 0 without any.
  int Hammer(double seconds, bool updates) {
    is_over_ = false;
    us_.clear();
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread)
      threads.emplace_back([this, thread] { Serve(thread); });
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    int count = 0;
    for (; Clock::now() < end; std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
      if (!updates) continue;
      const bool to_other = ++count % 2 == 1;
      program_.UpdateWeights(to_other ? other_ : serving::ServedArtifact());
      Context context(program_);  // sees what was just put in
      serving::Bind(context, requests_[0]);
      context.Run();
      EXPECT_TRUE(Answers(context, (to_other ? with_other_ : requests_)[0]));
    }
    is_over_ = true;
    for (std::thread& thread : threads) thread.join();
    return count;
  }

  double Percentile(double part) {
    std::sort(us_.begin(), us_.end());
    return us_[static_cast<size_t>(part * static_cast<double>(us_.size() - 1))];
  }

  Program program_{serving::ServedArtifact(), serving::DeviceUnderTest().c_str()};
  const std::string other_ =
      WithOtherWeights(serving::ServedArtifact(), serving::ServedArtifact() + ".other", 1.25f);
  std::vector<Request> requests_ = serving::MakeRequests(program_, kRequests), with_other_;
  std::atomic<bool> is_over_ = false;
  std::atomic<int64_t> torn_ = 0, first_ = 0, others_ = 0;
  std::mutex mutex_;
  std::vector<double> us_;
};

TEST_F(UpdatesUnderLoad, EveryRunSeesOneSetOfWeights) {
  const char* text = std::getenv("FUSEC_TEST_SECONDS");
  const double seconds = text ? std::atof(text) : 1;
  Hammer(seconds / 2, false);
  const double usual[] = {Percentile(0.5), Percentile(0.99)};
  EXPECT_EQ(others_, 0);
  const int updates = Hammer(seconds, true);
  EXPECT_EQ(torn_, 0);
  EXPECT_GT(first_, 0);
  EXPECT_GT(others_, 0);
  EXPECT_GT(updates, 1);
  std::printf(
      "%d updates in %.1f s: a call takes %.0f us (p99 %.0f), without updates %.0f (p99 %.0f)\n",
      updates, seconds, Percentile(0.5), Percentile(0.99), usual[0], usual[1]);
}

}  // namespace
}  // namespace fusec
