// Constants that --table-placement keeps in host memory, on a fake GPU.
#include <cstring>

#include "tests/serving/fake_gpu_test.h"

namespace fusec::runtime {
namespace {

CUresult NoMemory(void**, size_t, unsigned) { return CUDA_ERROR_OUT_OF_MEMORY; }

class FakeGpuHostTables : public FakeGpuTest {
 protected:
  void SetUp() override {
    FakeGpuTest::SetUp();
    made_.PlaceOnHost(kWeights);
    path_ = made_.Write("sm_90a", true);
    artifact_ = *Artifact::Open(path_);
  }

  static constexpr int kWeights = 1;
  std::unique_ptr<Artifact> artifact_;
};

TEST_F(FakeGpuHostTables, TakeNoDeviceMemory) {
  const size_t free_bytes = gpu_.free_bytes;
  const auto program = Load();
  EXPECT_EQ(gpu_.free_bytes, free_bytes);
  EXPECT_EQ(program->device().weight_bytes(), 0u);
  const auto& device = static_cast<CudaDevice&>(program->device());
  EXPECT_EQ(gpu_.pinned.count(HostPointer(device.weights().Address(kWeights))), 1u);
  EXPECT_TRUE(Runs(**Context::Create(*program), driver_, 100, 1));
}

TEST_F(FakeGpuHostTables, EveryByteOfALargeOneIsThere) {
  std::vector<int32_t> large(18 << 20);  // many pieces and threads
  std::iota(large.begin(), large.end(), 0);
  HandMadeArtifact made;
  made.Input("x", FUSEC_F32, {"1"});
  made.PlaceOnHost(
      made.Constant("large", FUSEC_I32, static_cast<int64_t>(large.size()), large.data()));
  made.PlaceOnHost(made.Constant("empty", FUSEC_I32, 0, large.data()));
  const auto artifact = *Artifact::Open(made.Write("sm_90a", false));
  const auto context = *CudaContext::Create(driver_, 0);
  const auto weights = CudaWeights::Upload(*context, *artifact);
  ASSERT_TRUE(weights) << weights.error().message;
  EXPECT_EQ(std::memcmp(HostPointer(weights->Address(1)), large.data(), large.size() * 4), 0);
  EXPECT_NE(weights->Address(2), 0u);
  EXPECT_EQ(weights->bytes(), 0u);
}

TEST_F(FakeGpuHostTables, PartsAreReplaced) {
  const auto program = Load();
  const float values[] = {200, 300};
  const auto* bytes = reinterpret_cast<const std::byte*>(values);
  const std::vector<std::byte> content(bytes, bytes + sizeof values);
  const ConstantPart part{kWeights, 4, sizeof values};
  ASSERT_TRUE(program->device().WriteConstants({&part, 1}, {&content, 1}));
  const auto& device = static_cast<CudaDevice&>(program->device());
  const auto* weights = static_cast<const float*>(HostPointer(device.weights().Address(kWeights)));
  EXPECT_EQ(std::vector<float>(weights, weights + 4), (std::vector<float>{10, 200, 300, 40}));
}

TEST_F(FakeGpuHostTables, PageableMemoryIsLockedWhereThereIsNoOther) {
  const auto context = *CudaContext::Create(driver_, 0);
  driver_.cuMemHostAlloc = NoMemory;
  testing::internal::CaptureStderr();
  const auto weights = CudaWeights::Upload(*context, *artifact_);
  const std::string said = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(weights) << weights.error().message;
  EXPECT_EQ(said,
            "fusec: warning: constant \"weights\" (16 bytes) lies in pageable memory that was "
            "locked: cuMemHostAlloc for constant \"weights\" (16 bytes) failed: CUDA_ERROR (an "
            "error)\n");
  EXPECT_EQ(static_cast<const float*>(HostPointer(weights->Address(kWeights)))[3], 40);
}

TEST_F(FakeGpuHostTables, SayWhyNoMemoryCanBeLocked) {
  const auto context = *CudaContext::Create(driver_, 0);
  driver_.cuMemHostAlloc = NoMemory;
  driver_.cuMemHostRegister = [](void*, size_t, unsigned) { return CUDA_ERROR_OUT_OF_MEMORY; };
  const auto weights = CudaWeights::Upload(*context, *artifact_);
  ASSERT_FALSE(weights);
  EXPECT_EQ(weights.error().code, FUSEC_NO_DEVICE);
  EXPECT_EQ(weights.error().message,
            "cuMemHostAlloc for constant \"weights\" (16 bytes) failed: CUDA_ERROR (an error); "
            "pageable memory in its place: cuMemHostRegister failed: CUDA_ERROR (an error); "
            "--table-placement wants as much host memory that may be locked (ulimit -l)");
}

}  // namespace
}  // namespace fusec::runtime
