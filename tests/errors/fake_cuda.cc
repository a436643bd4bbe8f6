// A fake libcuda.so.1 without a GPU, for tests of the messages when the driver fails. Nothing is computed: launches and copies do nothing,
// and every function succeeds, except as the environment says:
//
//     FAKE_CUDA_FAIL=cuGraphLaunch=700    that function returns that CUresult; =700,2 from its
//                                         second call on
//     FAKE_CUDA_VERSION=12040             of the driver (13000)
//     FAKE_CUDA_CAPABILITY=120            of its one GPU (90)
//     FAKE_CUDA_MEMORY=100                bytes that the GPU has (a gigabyte)
//
// The functions are declared by hand, so that no CUDA header is needed; on every ABI in use a C
// function may be called with more arguments than it reads.
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2;
constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_...
constexpr int kSharedMemory = 97;        // CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
size_t used_bytes = 0;

size_t Setting(const char* variable, size_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}
size_t MemoryBytes() { return Setting("FAKE_CUDA_MEMORY", size_t{1} << 30); }

int ResultOf(const char* function) {
  const char* text = std::getenv("FAKE_CUDA_FAIL");
  const std::string start = std::string(function) + "=";
  if (text == nullptr || std::strncmp(text, start.c_str(), start.size()) != 0) return kSuccess;
  static int calls = 0;  // calls of the function that is to fail
  const char* comma = std::strchr(text, ',');
  return ++calls < (comma == nullptr ? 1 : std::atoi(comma + 1)) ? kSuccess
                                                                 : std::atoi(text + start.size());
}

struct Error {
  int code;
  const char *name, *text;
};
constexpr Error kErrors[] = {
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
};

const Error* Find(int code) {
  for (const Error& error : kErrors) {
    if (error.code == code) return &error;
  }
  return nullptr;
}

}  // namespace

#define FAKE(name, parameters, ...)                                            \
  extern "C" int name parameters {                                             \
    if (const int failed = ResultOf(#name); failed != kSuccess) return failed; \
    __VA_ARGS__;                                                               \
    return kSuccess;                                                           \
  }
// Functions that do nothing, or make a handle, which may be any address.
#define FAKE_NOTHING(name) FAKE(name, ())
#define FAKE_HANDLE(name) FAKE(name, (const void** handle), *handle = &used_bytes)

FAKE(cuDriverGetVersion, (int* version),
     *version = static_cast<int>(Setting("FAKE_CUDA_VERSION", 13000)))
FAKE_NOTHING(cuInit)
FAKE(cuGetErrorName, (int code, const char** name), if (!Find(code)) return kInvalidValue;
     *name = Find(code)->name)
FAKE(cuGetErrorString, (int code, const char** text), if (!Find(code)) return kInvalidValue;
     *text = Find(code)->text)
FAKE(cuDeviceGetCount, (int* count), *count = 1)
FAKE(cuDeviceGet, (int* device, int ordinal), *device = ordinal)
FAKE(cuDeviceGetName, (char* name), std::strcpy(name, "Fake GPU"))
FAKE(cuDeviceGetAttribute, (int* value, int attribute),
     const int capability = static_cast<int>(Setting("FAKE_CUDA_CAPABILITY", 90));
     *value = attribute == kMajor          ? capability / 10
              : attribute == kMinor        ? capability % 10
              : attribute == kSharedMemory ? 227 << 10
                                           : 0)
FAKE_HANDLE(cuDevicePrimaryCtxRetain)
FAKE_NOTHING(cuDevicePrimaryCtxRelease_v2)
FAKE_NOTHING(cuCtxPushCurrent_v2)
FAKE_HANDLE(cuCtxPopCurrent_v2)
FAKE_HANDLE(cuModuleLoadData)
FAKE_NOTHING(cuModuleUnload)
FAKE_HANDLE(cuModuleGetFunction)
FAKE(cuFuncGetAttribute, (int* value), *value = 0)
FAKE_NOTHING(cuFuncSetAttribute)
FAKE_NOTHING(cuFuncLoad)
FAKE(cuDeviceCanAccessPeer, (int* can), *can = 1)
FAKE_NOTHING(cuCtxEnablePeerAccess)
FAKE_HANDLE(cuStreamCreate)
FAKE_NOTHING(cuStreamDestroy_v2)
FAKE_NOTHING(cuStreamSynchronize)
FAKE_NOTHING(cuStreamWaitEvent)
FAKE_NOTHING(cuStreamBeginCapture_v2)
FAKE(cuStreamEndCapture, (void*, const void** graph), *graph = &used_bytes)
FAKE_HANDLE(cuEventCreate)
FAKE_NOTHING(cuEventDestroy_v2)
FAKE_NOTHING(cuEventRecord)
FAKE_NOTHING(cuEventSynchronize)
FAKE(cuEventElapsedTime_v2, (float* milliseconds), *milliseconds = 1)
FAKE(cuMemGetInfo_v2, (size_t * free_bytes, size_t* total_bytes), *total_bytes = MemoryBytes();
     *free_bytes = *total_bytes - used_bytes)
FAKE(cuMemAlloc_v2, (unsigned long long* address, size_t bytes),
     if (bytes > MemoryBytes() - used_bytes) return kOutOfMemory;
     used_bytes += bytes; *address = 1ull << 32)
FAKE_NOTHING(cuMemFree_v2)
FAKE(cuMemHostAlloc, (void** memory, size_t bytes), *memory = std::calloc(bytes + 1, 1))
FAKE_NOTHING(cuMemHostRegister_v2)
FAKE_NOTHING(cuMemHostUnregister)
FAKE(cuMemFreeHost, (void* memory), std::free(memory))
FAKE(cuMemHostGetDevicePointer_v2, (void** address, void* memory), *address = memory)
FAKE_NOTHING(cuPointerGetAttributes)
FAKE_NOTHING(cuMemcpyHtoDAsync_v2)
FAKE_NOTHING(cuMemcpyDtoDAsync_v2)
FAKE_NOTHING(cuMemcpyDtoHAsync_v2)
FAKE_NOTHING(cuLaunchKernel)
FAKE_NOTHING(cuLaunchHostFunc)
FAKE_HANDLE(cuGraphCreate)
FAKE_NOTHING(cuGraphDestroy)
FAKE_HANDLE(cuGraphAddKernelNode_v2)
FAKE_HANDLE(cuGraphAddMemcpyNode)
FAKE_HANDLE(cuGraphAddChildGraphNode)
FAKE_NOTHING(cuGraphAddDependencies_v2)
FAKE_HANDLE(cuGraphInstantiateWithFlags)
FAKE_NOTHING(cuGraphExecDestroy)
FAKE_NOTHING(cuGraphLaunch)
FAKE_NOTHING(cuGraphExecKernelNodeSetParams_v2)
FAKE_NOTHING(cuGraphExecMemcpyNodeSetParams)
