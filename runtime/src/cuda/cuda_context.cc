#include "runtime/src/cuda/cuda_context.h"

namespace fusec::runtime {
namespace {

// Errors after which the driver fails every further call of the process on this GPU.
bool IsFatal(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_EXTERNAL_DEVICE:
      return true;
    default:
      return false;
  }
}

std::string Megabytes(size_t bytes) { return Text(bytes >> 20, " MiB"); }

}  // namespace

StatusOr<Gpu> FindGpu(const CudaDriver& driver, int ordinal) {
  Gpu gpu;
  FUSEC_RT_TRY(driver.Check(driver.cuDeviceGet(&gpu.device, ordinal), "cuDeviceGet"));
  char name[256] = "";
  FUSEC_RT_TRY(
      driver.Check(driver.cuDeviceGetName(name, sizeof(name), gpu.device), "cuDeviceGetName"));
  gpu.name = name;
  int major = 0, minor = 0;
  FUSEC_RT_TRY(driver.Check(
      driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, gpu.device),
      "cuDeviceGetAttribute"));
  FUSEC_RT_TRY(driver.Check(
      driver.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, gpu.device),
      "cuDeviceGetAttribute"));
  gpu.capability = 10 * major + minor;
  return gpu;
}

StatusOr<std::unique_ptr<CudaContext>> CudaContext::Create(int ordinal) {
  FUSEC_RT_ASSIGN(const CudaDriver* driver, CudaDriver::Get());
  return Create(*driver, ordinal);
}

StatusOr<std::unique_ptr<CudaContext>> CudaContext::Create(const CudaDriver& functions,
                                                           int ordinal) {
  const CudaDriver* driver = &functions;
  int count = 0;
  FUSEC_RT_TRY(driver->Check(driver->cuDeviceGetCount(&count), "cuDeviceGetCount"));
  if (ordinal < 0 || ordinal >= count) {
    return Fail(FUSEC_NO_DEVICE, "there is no GPU cuda:", ordinal, ", the machine has ", count,
                count == 1 ? " GPU" : " GPUs");
  }
  std::unique_ptr<CudaContext> context(new CudaContext);
  context->driver_ = driver;
  FUSEC_RT_ASSIGN(context->gpu_, FindGpu(*driver, ordinal));
  FUSEC_RT_TRY(
      driver->Check(driver->cuDevicePrimaryCtxRetain(&context->context_, context->gpu_.device),
                    "cuDevicePrimaryCtxRetain", context->gpu_.name));
  return context;
}

CudaContext::~CudaContext() {
  if (context_ != nullptr) static_cast<void>(driver_->cuDevicePrimaryCtxRelease(gpu_.device));
}

StatusOr<int> CudaContext::Attribute(CUdevice_attribute attribute) const {
  int value = 0;
  FUSEC_RT_TRY(FUSEC_CUDA(*this, {}, cuDeviceGetAttribute, &value, attribute, gpu_.device));
  return value;
}

Status CudaContext::Check(CUresult result, const char* call, std::string_view purpose) const {
  Status status = driver_->Check(result, call, purpose);
  if (status || !IsFatal(result)) return status;
  std::lock_guard lock(mutex_);
  if (broken_by_.empty()) broken_by_ = status.error().message;
  is_broken_ = true;
  return status;
}

Status CudaContext::Usable() const {
  if (!is_broken_) return {};
  std::lock_guard lock(mutex_);
  return Fail(FUSEC_NO_DEVICE,
              "the program is unusable since an earlier device error: ", broken_by_);
}

ScopedContext::ScopedContext(const CudaContext& context) : context_(context) {
  pushed_ = context.driver().cuCtxPushCurrent(context.handle()) == CUDA_SUCCESS;
}

ScopedContext::~ScopedContext() {
  CUcontext popped = nullptr;
  if (pushed_) static_cast<void>(context_.driver().cuCtxPopCurrent(&popped));
}

StatusOr<DeviceMemory> AllocateDevice(const CudaContext& context, size_t bytes,
                                      std::string_view purpose) {
  if (bytes == 0) return DeviceMemory();
  CUdeviceptr memory = 0;
  const CUresult result = context.driver().cuMemAlloc(&memory, bytes);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    size_t free_bytes = 0, total_bytes = 0;
    FUSEC_RT_TRY(FUSEC_CUDA(context, purpose, cuMemGetInfo, &free_bytes, &total_bytes));
    return Fail(FUSEC_NO_DEVICE, "out of GPU memory for ", purpose, ": needs ", bytes, " bytes (",
                Megabytes(bytes), "), ", context.gpu_name(), " has ", Megabytes(free_bytes),
                " free of ", Megabytes(total_bytes));
  }
  FUSEC_RT_TRY(context.Check(result, "cuMemAlloc", Text(purpose, " (", bytes, " bytes)")));
  return DeviceMemory(context, memory);
}

StatusOr<PinnedMemory> AllocatePinned(const CudaContext& context, size_t bytes,
                                      std::string_view purpose) {
  if (bytes == 0) return PinnedMemory();
  void* memory = nullptr;
  // PORTABLE: the memory is page-locked for all contexts. DEVICEMAP: kernels can access it.
  const unsigned flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
  FUSEC_RT_TRY(FUSEC_CUDA(context, Text(purpose, " (", bytes, " bytes)"), cuMemHostAlloc, &memory,
                          bytes, flags));
  return PinnedMemory(context, memory);
}

StatusOr<CudaStream> CreateStream(const CudaContext& context) {
  CUstream stream = nullptr;
  FUSEC_RT_TRY(FUSEC_CUDA(context, {}, cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING));
  return CudaStream(context, stream);
}

StatusOr<CudaEvent> CreateEvent(const CudaContext& context, bool with_timing) {
  CUevent event = nullptr;
  FUSEC_RT_TRY(FUSEC_CUDA(context, {}, cuEventCreate, &event,
                          with_timing ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING));
  return CudaEvent(context, event);
}

}  // namespace fusec::runtime
