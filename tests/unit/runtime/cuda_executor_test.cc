#include "runtime/src/cuda/cuda_executor.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <utility>

#include "runtime/src/arena.h"
#include "tests/gpu/hand_made_artifact.h"
#include "tests/unit/runtime/fake_cuda.h"
#include "tests/unit/runtime/heap_allocations.h"

namespace fusec::runtime {
namespace {

// y = (x + 1) * 2 with the sum in the arena; x[i] < 0 is reported as an index out of range.
class CudaExecutorTest : public testing::Test {
 protected:
  void SetUp() override {
    FakeGpu::current = &gpu_;
    gpu_.kernels["k_add"] = {[](void** a, unsigned blocks, unsigned block_size) {
                               const auto* x = Argument<const float*>(a, 0);
                               auto* sum = Argument<float*>(a, 1);
                               auto* errors = Argument<IndexError*>(a, 2);
                               const int count = Argument<int>(a, 3);
                               EXPECT_EQ(blocks, static_cast<unsigned>(count + 31) / 32);
                               EXPECT_EQ(block_size, 32u);
                               for (int i = 0; i < count; ++i) {
                                 sum[i] = x[i] + 1;
                                 if (x[i] < 0 && errors->site == 0) *errors = {1, 0, i, 7, 5};
                               }
                             },
                             {8, 8, 8, 4}};
    gpu_.kernels["k_double"] = {[](void** a, unsigned, unsigned) {
                                  const auto* sum = Argument<const float*>(a, 0);
                                  auto* y = Argument<float*>(a, 1);
                                  for (int64_t i = 0; i < Argument<int64_t>(a, 2); ++i)
                                    y[i] = 2 * sum[i];
                                },
                                {8, 8, 8}};
    made_.Symbol("batch", 0, int64_t{1} << 40);
    const int x = made_.Input("x", FUSEC_F32, {"batch"});
    const int sum = made_.Arena("sum", FUSEC_F32, "batch");
    const int y = made_.Output("y", FUSEC_F32, {"batch"});
    made_.IndexSite("/Gather", "x", {"batch"}, 5);
    const char* add = "extern \"C\" __global__ void k_add(const float*, float*, void*, int) {}\n";
    const char* twice =
        "extern \"C\" __global__ void k_double(const float*, float*, long long) {}\n";
    made_.Kernel({"k_add",
                  add,
                  "floordiv(batch + 31, 32)",
                  32,
                  0,
                  {"b0", "b1", "e", "i:batch"},
                  {x},
                  {sum}});
    made_.Kernel({"k_double",
                  twice,
                  "floordiv(batch + 31, 32)",
                  32,
                  0,
                  {"b1", "b2", "l:batch"},
                  {sum},
                  {y},
                  {},
                  false,
                  outputs_in_device_memory_});
    auto artifact = Artifact::Open(made_.Write("sm_90a", true));
    ASSERT_TRUE(artifact) << artifact.error().message;
    artifact_ = std::move(*artifact);
    driver_ = gpu_.Driver();
    NewExecutor();
  }

  void TearDown() override {
    executor_.reset();
    device_.reset();
    EXPECT_EQ(gpu_.live, 0);
  }

  void NewExecutor() {
    executor_.reset();
    device_.reset();
    auto context = CudaContext::Create(driver_, 0);
    ASSERT_TRUE(context);
    auto device = CudaDevice::Create(*artifact_, 0, std::move(*context));
    ASSERT_TRUE(device) << device.error().message;
    device_ = std::move(*device);
    auto executor = device_->NewExecutor();
    ASSERT_TRUE(executor) << executor.error().message;
    executor_ = std::move(*executor);
  }

  // Binds tensors, and passes the bindings to `use`.
  template <class Use>
  auto With(void* x, void* y, int64_t batch, bool on_device, Use use) {
    const size_t buffers = artifact_->manifest().buffers.size();
    const std::vector<int64_t> symbols = {batch}, bytes(buffers, 4 * batch);
    const auto arena = PackArena(artifact_->manifest(), device_->target(), bytes);
    EXPECT_TRUE(arena);
    const TensorBinding input{x, static_cast<size_t>(4 * batch), on_device};
    const TensorBinding output{y, static_cast<size_t>(4 * batch), on_device};
    return use(RunBindings{symbols, ++version_, bytes, &*arena, {&input, 1}, {&output, 1}});
  }
  Status Run(std::vector<float>& x, std::vector<float>& y) {
    y.assign(x.size(), -1);
    return With(x.data(), y.data(), static_cast<int64_t>(x.size()), false,
                [&](const RunBindings& bindings) { return executor_->Run(bindings); });
  }
  void ExpectRight(int64_t batch) {
    std::vector<float> x(static_cast<size_t>(batch)), y;
    std::iota(x.begin(), x.end(), 0.0f);
    const Status run = Run(x, y);
    ASSERT_TRUE(run) << run.error().message;
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], 2 * (x[i] + 1)) << batch;
  }

  bool outputs_in_device_memory_ = false;
  FakeGpu gpu_;
  CudaDriver driver_;
  HandMadeArtifact made_;
  std::unique_ptr<Artifact> artifact_;
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<Executor> executor_;
  uint64_t version_ = 0;
};

TEST_F(CudaExecutorTest, CompilesItsSourcesForAGpuItWasNotMadeFor) {
  using Images = std::vector<std::string>;
  EXPECT_EQ(gpu_.modules, Images{"\177ELF"});  // the artifact's own
  for (const int capability : {100, 199}) {    // one that NVRTC supports, and one that does not exist
    gpu_.capability = capability;
    gpu_.modules.clear();
    NewExecutor();
    const std::string image = capability == 100 ? "\177ELF" : "//\n/";
    EXPECT_EQ(gpu_.modules, (Images{image, image}));  // one of each .cu file
    ExpectRight(5);
  }
}

// Executables of one graph.
constexpr int kExecutables = 8;

TEST_F(CudaExecutorTest, ChangesParametersForOtherDims) {
  ExpectRight(1000);
  EXPECT_EQ(gpu_.instantiated, kExecutables);
  for (int round = 0; round < 3; ++round) {
    for (const int64_t batch : {1, 128, 0, 1000}) ExpectRight(batch);
  }
  EXPECT_EQ(gpu_.built, 1);
  EXPECT_EQ(gpu_.instantiated, kExecutables);
  EXPECT_EQ(gpu_.patched, 2 * 3);  // a copy and two kernels for 1 and 128, once
  EXPECT_EQ(gpu_.launched, 10);    // nothing is launched for an empty batch
}

TEST_F(CudaExecutorTest, CopiesOfOutputsNeedNoOtherGraph) {
  for (const int64_t batch : {60000, 20000, 30000, 60000, 50000}) ExpectRight(batch);
  EXPECT_EQ(gpu_.built, 1);
}

TEST_F(CudaExecutorTest, MakesAnotherGraphForCopiesOfAnotherKind) {
  for (const int64_t batch : {1, 17000, 1, 17000}) ExpectRight(batch);
  EXPECT_EQ(gpu_.built, 2);  // with a kernel, and with a copy node
  EXPECT_EQ(gpu_.instantiated, 2 * kExecutables);
}

TEST_F(CudaExecutorTest, ChangesTheExecutableUsedLongestAgo) {
  for (int64_t batch = 40; batch > 0; --batch) ExpectRight(batch);
  const int patched = 39 * 3 - 3;  // 37 to 39 rows are copied with the parameters of 40
  EXPECT_EQ(gpu_.patched, patched);
  for (int64_t batch = 1; batch <= kExecutables; ++batch) ExpectRight(batch);
  EXPECT_EQ(gpu_.patched, patched);
  EXPECT_EQ(gpu_.built, 1);
}

TEST_F(CudaExecutorTest, ChangesParametersForNewAddresses) {
  std::vector<std::vector<float>> x(20, std::vector<float>(12, 1.0f)), y = x;
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < x.size(); ++i) {
      x[i][11] = static_cast<float>(i);
      const Status run = With(x[i].data(), y[i].data(), 12, true, [&](const RunBindings& b) {
        return executor_->RunAsync(b, nullptr);
      });
      ASSERT_TRUE(run) << run.error().message;
    }
    ASSERT_TRUE(executor_->Synchronize());
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i][11], 2 * (static_cast<float>(i) + 1));
  }
  EXPECT_EQ(gpu_.instantiated, kExecutables);
  EXPECT_EQ(gpu_.patched, 39 * 2);
}

TEST_F(CudaExecutorTest, RunsOverlapOnlyWhereTheyMay) {
  std::vector<float> x[3] = {{1, 2}, {3, 4}, {5, 6}}, y[3] = {{0, 0}, {0, 0}, {0, 0}};
  CUstream streams[2];
  for (CUstream& stream : streams) driver_.cuStreamCreate(&stream, 0);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(With(x[i].data(), y[i].data(), 2, false,
                     [&](const RunBindings& b) { return executor_->RunAsync(b, streams[i % 2]); }));
  }
  ASSERT_TRUE(executor_->Synchronize());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(y[i][1], 2 * (x[i][1] + 1)) << i;
  for (CUstream stream : streams) driver_.cuStreamDestroy(stream);
}

TEST_F(CudaExecutorTest, RunsOfLateAllocateNothing) {
  std::vector<float> x(400000, 1.0f), y(400000);
  const auto pinned = device_->AllocateHost(8000);
  ASSERT_TRUE(pinned);
  // The fake driver allocates memory for everything that it enqueues.
  driver_.cuGraphLaunch = [](CUgraphExec, CUstream) { return CUDA_SUCCESS; };
  driver_.cuEventRecord = [](CUevent, CUstream) { return CUDA_SUCCESS; };
  driver_.cuMemcpyHtoDAsync = [](CUdeviceptr, const void*, size_t, CUstream) {
    return CUDA_SUCCESS;
  };
  driver_.cuMemcpyDtoHAsync = [](void*, CUdeviceptr, size_t, CUstream) { return CUDA_SUCCESS; };
  With(x.data(), y.data(), 400000, false, [&](const RunBindings& many) {
    return With(x.data(), *pinned, 3, false, [&](const RunBindings& few) {
      int64_t before = 0;
      for (int i = 0; i < 10; ++i) {
        if (i == 2) before = HeapAllocations();
        EXPECT_TRUE(executor_->Run(many));
        EXPECT_TRUE(executor_->Run(few));
        EXPECT_TRUE(executor_->RunAsync(many, nullptr));
        EXPECT_TRUE(executor_->Synchronize());
      }
      EXPECT_EQ(HeapAllocations(), before);
      return 0;
    });
  });
  device_->FreeHost(*pinned);
}

TEST_F(CudaExecutorTest, CopiesLargeOutputsOnly) {
  for (const int64_t batch : {1000, 20000}) {
    NewExecutor();
    gpu_.calls.clear();
    gpu_.copies = 0;
    ExpectRight(batch);
    EXPECT_EQ(gpu_.copies, 1);  // the input, by the graph
    EXPECT_EQ(gpu_.calls["cuMemcpyDtoHAsync"], batch == 1000 ? 0 : 1);
  }
}

class OutputsInDeviceMemoryTest : public CudaExecutorTest {
 protected:
  OutputsInDeviceMemoryTest() { outputs_in_device_memory_ = true; }
};

TEST_F(OutputsInDeviceMemoryTest, CopiesSmallOutputsToo) {
  ExpectRight(1000);
  EXPECT_EQ(gpu_.calls["cuMemcpyDtoHAsync"], 1);
}

TEST_F(CudaExecutorTest, WritesToPageLockedMemoryDirectly) {
  const auto memory = device_->AllocateHost(8);
  ASSERT_TRUE(memory);
  EXPECT_TRUE(device_->OwnsHost(*memory, 8));
  EXPECT_FALSE(device_->OwnsHost(static_cast<char*>(*memory) + 60, 8));
  std::vector<float> x = {1, 2};
  ASSERT_TRUE(
      With(x.data(), *memory, 2, false, [&](const RunBindings& b) { return executor_->Run(b); }));
  EXPECT_EQ(static_cast<float*>(*memory)[1], 6);
  device_->FreeHost(*memory);
  EXPECT_FALSE(device_->OwnsHost(*memory, 8));
}

TEST_F(CudaExecutorTest, ReportsIndexErrorsOnce) {
  std::vector<float> bad = {1, -2, -3}, good = {1, 2, 3}, y;
  const Status run = Run(bad, y);
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code, FUSEC_BAD_INPUT);
  EXPECT_NE(run.error().message.find("[1]"), std::string::npos) << run.error().message;
  ASSERT_TRUE(Run(good, y));
  // The error of an asynchronous run is reported by Synchronize, whatever runs in between.
  y.assign(3, 0);
  ASSERT_TRUE(With(bad.data(), y.data(), 3, false,
                   [&](const RunBindings& b) { return executor_->RunAsync(b, nullptr); }));
  ASSERT_TRUE(Run(good, y));
  EXPECT_FALSE(executor_->Synchronize());
  EXPECT_TRUE(executor_->Synchronize());
  // Also if something waits for the run in between, because its memory is to be replaced.
  ASSERT_TRUE(With(bad.data(), y.data(), 3, false,
                   [&](const RunBindings& b) { return executor_->RunAsync(b, nullptr); }));
  executor_->FinishEarlier();
  ASSERT_TRUE(Run(good, y));
  EXPECT_FALSE(executor_->Synchronize());
  // And for a tensor that is copied in pieces.
  bad.assign(300000, 1);
  bad[299999] = -1;
  EXPECT_NE(Run(bad, y).error().message.find("[299999]"), std::string::npos);
  ExpectRight(300000);
}

TEST_F(CudaExecutorTest, RecoversFromOutOfMemory) {
  ExpectRight(10);
  std::vector<float> x(1), y(1);
  const Status run = With(x.data(), y.data(), int64_t{1} << 32, true,
                          [&](const RunBindings& b) { return executor_->Run(b); });
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code, FUSEC_NO_DEVICE);
  EXPECT_NE(run.error().message.find("needs 17179869184 bytes (16384 MiB)"), std::string::npos)
      << run.error().message;
  ExpectRight(20);
}

TEST_F(CudaExecutorTest, BuildsAGraphWhereTheDriverRefusesAChange) {
  ExpectRight(10);
  driver_.cuGraphExecKernelNodeSetParams = [](CUgraphExec, CUgraphNode,
                                              const CUDA_KERNEL_NODE_PARAMS*) {
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  };
  for (const int64_t batch : {20, 10, 20, 30}) ExpectRight(batch);
  EXPECT_EQ(gpu_.built, 3);
}

TEST_F(CudaExecutorTest, OutOfMemoryLeavesOtherContextsWorking) {
  ExpectRight(10);
  auto other = std::move(*device_->NewExecutor());
  std::vector<float> x(20, 1.0f), y(20);
  const auto run = [&](Executor& executor, int64_t batch) {
    return With(x.data(), y.data(), batch, true,
                [&](const RunBindings& b) { return executor.Run(b); });
  };
  ASSERT_TRUE(run(*other, 20));
  // The arena of one context, and then an executable graph of another.
  EXPECT_FALSE(run(*other, int64_t{1} << 32));
  EXPECT_EQ(y[19], 4);
  const auto instantiate = std::exchange(
      driver_.cuGraphInstantiate,
      [](CUgraphExec*, CUgraph, unsigned long long) { return CUDA_ERROR_OUT_OF_MEMORY; });
  auto third = std::move(*device_->NewExecutor());
  EXPECT_FALSE(run(*third, 20));
  driver_.cuGraphInstantiate = instantiate;
  ExpectRight(20);
  EXPECT_TRUE(device_->context().Usable());
  for (Executor* executor : {other.get(), third.get()}) {
    x.assign(20, 2.0f);
    ASSERT_TRUE(run(*executor, 20));
    EXPECT_EQ(y[19], 6);
    x.assign(20, 1.0f);
  }
}

TEST_F(CudaExecutorTest, AFaultEndsAllContexts) {
  ExpectRight(10);
  auto other = std::move(*device_->NewExecutor());
  std::vector<float> x(20, 1.0f), y(20);
  const auto run = [&](Executor& executor) {
    return With(x.data(), y.data(), 20, true,
                [&](const RunBindings& b) { return executor.RunAsync(b, nullptr); });
  };
  ASSERT_TRUE(run(*other));
  ASSERT_TRUE(other->Synchronize());
  const auto launch = std::exchange(driver_.cuGraphLaunch, [](CUgraphExec, CUstream) {
    return CUDA_ERROR_ILLEGAL_ADDRESS;  // the error of an earlier launch, as the driver reports it
  });
  EXPECT_FALSE(run(*executor_));
  driver_.cuGraphLaunch = launch;
  for (Executor* executor : {executor_.get(), other.get()}) {
    const Status refused = run(*executor);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("unusable since an earlier device error: cuGraphLaunch"),
              std::string::npos)
        << refused.error().message;
  }
}

TEST_F(CudaExecutorTest, IsUnusableAfterAFault) {
  ExpectRight(10);
  gpu_.next_wait = CUDA_ERROR_ILLEGAL_ADDRESS;
  std::vector<float> x(3), y;
  const Status first = Run(x, y);
  ASSERT_FALSE(first);
  EXPECT_NE(first.error().message.find("CUDA_ERROR_ILLEGAL_ADDRESS (an error)"), std::string::npos);
  const Status second = Run(x, y);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, FUSEC_NO_DEVICE);
  EXPECT_NE(second.error().message.find("unusable"), std::string::npos);
  EXPECT_FALSE(device_->NewExecutor());
}

TEST_F(CudaExecutorTest, WithoutGraphsAnErrorNamesTheKernel) {
  setenv("FUSEC_CUDA_GRAPH", "0", 1);
  NewExecutor();
  unsetenv("FUSEC_CUDA_GRAPH");
  ExpectRight(100);
  EXPECT_EQ(gpu_.instantiated, 0);
  gpu_.kernels["k_double"].run = [this](void**, unsigned, unsigned) {
    gpu_.next_wait = CUDA_ERROR_LAUNCH_FAILED;
  };
  std::vector<float> x(3), y;
  const Status run = Run(x, y);
  ASSERT_FALSE(run);
  EXPECT_NE(run.error().message.find("k_double"), std::string::npos) << run.error().message;
}

TEST_F(CudaExecutorTest, MeasuresEveryRun) {
  std::vector<float> x(3), y(3);
  const auto times = With(x.data(), y.data(), 3, false,
                          [&](const RunBindings& b) { return executor_->MeasureRuns(b, 4); });
  ASSERT_TRUE(times) << times.error().message;
  EXPECT_EQ(times->size(), 4u);
  EXPECT_DOUBLE_EQ((*times)[0], 25.0);  // 0.5 ms for 20 replays
}

// Times each step alone, in order, for both sets of inputs; the second step reads the result of the first.
TEST_F(CudaExecutorTest, MeasuresEveryStepAlone) {
  std::vector<float> x = {1, 2, 3}, other = {4, 5, 6}, y(3);
  int added = 0, doubled = 0, added_before = 0;
  const auto add = gpu_.kernels["k_add"].run, twice = gpu_.kernels["k_double"].run;
  gpu_.kernels["k_add"].run = [&](void** a, unsigned blocks, unsigned size) {
    ++added;
    EXPECT_EQ(doubled, 0);
    add(a, blocks, size);
  };
  gpu_.kernels["k_double"].run = [&](void** a, unsigned blocks, unsigned size) {
    if (doubled++ == 0) added_before = added;
    EXPECT_EQ(Argument<const float*>(a, 0)[0], 5);
    twice(a, blocks, size);
  };
  const auto times = With(x.data(), y.data(), 3, false, [&](const RunBindings& first) {
    return With(other.data(), y.data(), 3, false, [&](const RunBindings& second) {
      const RunBindings sets[] = {first, second};
      return static_cast<CudaExecutor&>(*executor_).MeasureSteps(sets, 4);
    });
  });
  ASSERT_TRUE(times) << times.error().message;
  ASSERT_EQ(times->size(), 2u);
  EXPECT_GT(added_before, 0);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ((*times)[i].step, i);
    ASSERT_EQ((*times)[i].us.size(), 4u);
    EXPECT_DOUBLE_EQ((*times)[i].us[0], 250.0);  // 0.5 ms for a graph of two nodes
  }
}

TEST_F(CudaExecutorTest, RefusesMisalignedDeviceMemory) {
  std::vector<float> x(8), y(8);
  const Status run = With(x.data() + 1, y.data(), 3, true,
                          [&](const RunBindings& b) { return executor_->Run(b); });
  ASSERT_FALSE(run);
  EXPECT_NE(run.error().message.find("\"x\" starts 4 bytes after"), std::string::npos)
      << run.error().message;
}

// Two kernels, for up to 8 and for more rows.
class AlternativesTest : public CudaExecutorTest {
 protected:
  void RunBoth(int cluster_of_few) {
    gpu_.kernels["k_few"] = {[](void** a, unsigned blocks, unsigned) {
                               EXPECT_EQ(blocks, 8u);
                               *Argument<float*>(a, 1) = *Argument<const float*>(a, 0) + 1;
                             },
                             {8, 8},
                             cluster_of_few};
    gpu_.kernels["k_many"] = {[](void** a, unsigned blocks, unsigned) {
                                EXPECT_EQ(blocks, static_cast<unsigned>(Argument<int>(a, 2)));
                                *Argument<float*>(a, 1) = *Argument<const float*>(a, 0) + 2;
                              },
                              {8, 8, 4}};
    HandMadeArtifact made;
    made.Symbol("batch", 1, 1000);
    const int x = made.Input("x", FUSEC_F32, {"batch"});
    const int y = made.Output("y", FUSEC_F32, {"batch"});
    const char* few = "extern \"C\" __global__ void k_few(const float*, float*) {}\n";
    const char* many = "extern \"C\" __global__ void k_many(const float*, float*, int) {}\n";
    made.Kernel({"k_few", few, "8", 32, 0, {"b0", "b1"}, {x}, {y}, {"batch", 0, 8}});
    made.Kernel(
        {"k_many", many, "batch", 64, 0, {"b0", "b1", "i:batch"}, {x}, {y}, {"batch", 9, 1000}});
    executor_.reset();
    device_.reset();
    artifact_ = std::move(*Artifact::Open(made.Write("sm_90a", true)));
    NewExecutor();
    for (const int64_t batch : {1, 100, 8, 9, 1, 100}) {
      std::vector<float> in(static_cast<size_t>(batch), 5.0f), out;
      ASSERT_TRUE(Run(in, out));
      EXPECT_EQ(out[0], batch <= 8 ? 6.0f : 7.0f) << batch;
    }
  }
};

TEST_F(AlternativesTest, StandInTheSameNode) {
  RunBoth(0);
  EXPECT_EQ(gpu_.built, 1);
}

TEST_F(AlternativesTest, StandInGraphsOfTheirOwnWithOtherClusters) {
  RunBoth(8);
  EXPECT_EQ(gpu_.built, 2);
}

}  // namespace
}  // namespace fusec::runtime
