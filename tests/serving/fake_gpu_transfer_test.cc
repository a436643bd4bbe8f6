// How host tensors are copied to and from a GPU, observed by a fake driver.
#include <algorithm>

#include "tests/serving/fake_gpu_test.h"

namespace fusec::runtime {
namespace {

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

TEST_F(FakeGpuTest, SmallInputsAreCopiedByAKernelWhereThereIsOne) {
  for (const bool is_there : {true, false}) {
    if (!is_there) gpu_.kernels.erase("copy_inputs");
    const auto program = Load();
    auto context = std::move(*Context::Create(*program));
    gpu_.calls.clear();
    EXPECT_TRUE(Runs(*context, driver_, 1001, 1));
    EXPECT_EQ(gpu_.calls["cuGraphAddKernelNode"], is_there ? 4 + 3 : 3 + 2);  // see below
    EXPECT_EQ(gpu_.calls["cuGraphAddMemcpyNode"], is_there ? 0 : 2);
  }
}

// A run that is waited for at once ends with a kernel that tells the host.
TEST_F(FakeGpuTest, TheEndOfARunIsReadFromHostMemory) {
  driver_.cuGraphLaunch = [](CUgraphExec executable, CUstream stream) {
    const CUresult launched = FakeGpu::current->Driver().cuGraphLaunch(executable, stream);
    FakeGpu::current->Drain(FakeGpu::Of(stream));  // as fast as a GPU might be
    return launched;
  };
  const auto program = Load();
  auto context = std::move(*Context::Create(*program));
  const auto run = [&](int64_t batch, bool is_awaited, float first) {
    std::vector<float> x(static_cast<size_t>(batch));
    std::iota(x.begin(), x.end(), first);
    gpu_.calls.clear();
    EXPECT_TRUE(context->BindInput(0, x.data(), {&batch, 1}, false));
    EXPECT_TRUE(is_awaited ? context->Run() : context->RunAsync(context->executor().stream()));
    EXPECT_TRUE(context->Synchronize());
    ExpectAnswer(static_cast<const float*>(context->GetOutput(0).data), batch, first);
    return gpu_.calls["cuStreamSynchronize"];
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(run(100 + i, true, 5), 0);
    EXPECT_EQ(gpu_.calls["cuGraphLaunch"], 1);
  }
  EXPECT_EQ(run(100, false, 6), 1);
  EXPECT_EQ(run(100, true, 7), 0);
  EXPECT_EQ(run(20000, true, 8), 1);  // its output is copied behind the graph
  EXPECT_EQ(run(0, true, 9), 1);      // nothing is launched
  EXPECT_EQ(run(101, true, 10), 0);

  // If the GPU stops before the end, the driver reports it.
  const int64_t batch = 101;
  const std::vector<float> x(batch);
  EXPECT_TRUE(context->BindInput(0, x.data(), {&batch, 1}, false));
  gpu_.kernels["end_run"].run = [](void**, unsigned, unsigned) {};
  gpu_.next_wait = CUDA_ERROR_LAUNCH_FAILED;
  EXPECT_FALSE(context->Run());
}

TEST_F(FakeGpuTest, PageLockedInputsOfSomeKilobytesAreReadByTheGraph) {
  constexpr int64_t kBatch = 3001;
  const auto program = Load();
  auto context = std::move(*Context::Create(*program));
  std::vector<std::unique_ptr<PinnedFloats>> x;
  for (int i = 0; i < 20; ++i) x.push_back(std::make_unique<PinnedFloats>(*program, kBatch));
  const size_t pinned_bytes = gpu_.pinned_bytes;
  const auto run = [&](int i) {
    EXPECT_TRUE(context->BindInput(0, x[i]->data(), {&kBatch, 1}, false));
    EXPECT_TRUE(context->RunAsync(context->executor().stream()));
    x[i]->Fill(static_cast<float>(i));  // the fake GPU reads it later
    EXPECT_TRUE(context->Synchronize());
    ExpectAnswer(static_cast<const float*>(context->GetOutput(0).data), kBatch,
                 static_cast<float>(i));
  };
  run(0);
  EXPECT_EQ(gpu_.pinned_bytes, pinned_bytes + kBatch * 4);  // the output, and no staging
  for (int i = 1; i < 20; ++i) run(i);
  EXPECT_EQ(gpu_.built, 1);
  EXPECT_EQ(gpu_.patched, 19);  // the kernel that copies, and no other
  for (int i = 12; i < 20; ++i) run(i);
  EXPECT_EQ(gpu_.patched, 19);
}

TEST_F(FakeGpuTest, CopiesAnyNumberOfInputs) {
  struct Case {
    int large, small;  // inputs of 8 KiB in page-locked memory, and of 4 bytes
    bool by_kernel;
  };
  for (const auto& [large, small, by_kernel] : {Case{8, 0, true},
                                                {7, 32, true},
                                                {7, 33, false},
                                                {8, 1, false},
                                                {9, 0, false},
                                                {1, 300, false}}) {
    const int inputs = large + small;
    HandMadeArtifact made;
    HandMadeArtifact::KernelStep step{"k_sum", "extern \"C\" __global__ void k_sum() {}\n", "1",
                                      32};
    gpu_.kernels["k_sum"] = {[inputs](void** a, unsigned, unsigned) {
                               float sum = 0;
                               for (int i = 0; i < inputs; ++i) sum += *Argument<float*>(a, i);
                               *Argument<float*>(a, inputs) = sum;
                             },
                             std::vector<size_t>(inputs + 1, 8)};
    for (int i = 0; i < inputs; ++i) {
      const char* size = i < large ? "2048" : "1";
      step.inputs.push_back(made.Input("x" + std::to_string(i), FUSEC_F32, {size}));
      step.arguments.push_back("b" + std::to_string(i));
    }
    step.outputs.push_back(made.Output("sum", FUSEC_F32, {"1"}));
    step.arguments.push_back("b" + std::to_string(inputs));
    made.Kernel(step);
    path_ = made.Write("sm_90a", true);
    const auto program = Load();
    auto context = std::move(*Context::Create(*program));
    std::vector<std::unique_ptr<PinnedFloats>> x;
    for (int i = 0; i < inputs; ++i) {
      const int64_t size = i < large ? 2048 : 1;
      x.push_back(std::make_unique<PinnedFloats>(*program, size));
      x[i]->Fill(static_cast<float>(i + 1));
      ASSERT_TRUE(context->BindInput(i, x[i]->data(), {&size, 1}, false));
    }
    gpu_.calls.clear();
    ASSERT_TRUE(context->Run());
    EXPECT_EQ(*static_cast<const float*>(context->GetOutput(0).data),
              static_cast<float>(inputs * (inputs + 1) / 2));
    EXPECT_EQ(gpu_.calls["cuGraphAddMemcpyNode"], by_kernel ? 0 : 1) << large << " " << small;
  }
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

// With pageable outputs (in the second of the two runs) staging is larger.
TEST_F(FakeGpuTest, StagingThatGrowsMayKeepItsAddress) {
  gpu_.reuses_addresses = true;
  const auto program = Load();
  const auto context = std::move(*Context::Create(*program));
  for (const int64_t batch : {20000, 30000, 20000, 40000, 20000}) {
    EXPECT_TRUE(Runs(*context, driver_, batch, 1)) << batch;
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
  // Page-locked inputs are read only when their run executes, also if runs wait for each other.
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

// Results of an earlier run that are in staging memory are not lost when a later run needs no staging.
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

// After an error was reported, the caller may free the bound memory.
}  // namespace
}  // namespace fusec::runtime
