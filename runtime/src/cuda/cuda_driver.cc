#include "runtime/src/cuda/cuda_driver.h"

#include <dlfcn.h>

#include <cstdlib>

#include "runtime/src/cuda/nvidia_library.h"

namespace fusec::runtime {
namespace {

constexpr char kSoname[] = "libcuda.so.1";
constexpr int kNeededVersion = 13000;

// Fills the table and initialises the driver.
Status Open(CudaDriver& driver) {
  void* library = dlopen(kSoname, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    const std::string text = reason == nullptr ? "cannot be opened" : reason;
    const bool named = text.rfind(kSoname, 0) == 0;  // the text usually begins with the name
    return Fail(FUSEC_NO_DEVICE, "no NVIDIA driver found (", named ? "" : Text(kSoname, ": "), text,
                ")");
  }
  // The version is checked first: an old driver lacks newer functions, and an error about its age
  // is more helpful.
  FUSEC_RT_ASSIGN(void* get_version, FindSymbol(library, kSoname, "cuDriverGetVersion"));
  int version = 0;
  const CUresult result = reinterpret_cast<decltype(&::cuDriverGetVersion)>(get_version)(&version);
  if (result != CUDA_SUCCESS) {
    return Fail(FUSEC_NO_DEVICE, "cuDriverGetVersion failed with code ", static_cast<int>(result),
                " (is ", kSoname, " the toolkit's stub instead of a driver?)");
  }
  if (version < kNeededVersion) {
    return Fail(FUSEC_NO_DEVICE, "the NVIDIA driver is too old: it supports CUDA ",
                CudaVersionText(version), ", expected ", CudaVersionText(kNeededVersion),
                " or newer (driver 580)");
  }
#define FUSEC_TEXT(name) #name
#define FUSEC_RESOLVE(name)                                                         \
  {                                                                                 \
    FUSEC_RT_ASSIGN(void* address, FindSymbol(library, kSoname, FUSEC_TEXT(name))); \
    driver.name = reinterpret_cast<decltype(driver.name)>(address);                 \
  }
  FUSEC_CUDA_FUNCTIONS(FUSEC_RESOLVE)
#undef FUSEC_RESOLVE
#undef FUSEC_TEXT
  const CUresult initialised = driver.cuInit(0);
  if (initialised == CUDA_ERROR_NO_DEVICE) {
    return Fail(FUSEC_NO_DEVICE,
                "the NVIDIA driver shows no GPU (cuInit: ", driver.ErrorText(initialised), ")");
  }
  FUSEC_RT_TRY(driver.Check(initialised, "cuInit"));
  int count = 0;
  FUSEC_RT_TRY(driver.Check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount"));
  if (count == 0) return Fail(FUSEC_NO_DEVICE, "the NVIDIA driver shows no GPU");
  return {};
}

}  // namespace

std::string CudaVersionText(int version) { return Text(version / 1000, ".", version % 1000 / 10); }

StatusOr<const CudaDriver*> CudaDriver::Get() {
  static CudaDriver driver;
  static const Status opened = Open(driver);
  FUSEC_RT_TRY(opened);
  return &driver;
}

std::string CudaDriver::ErrorText(CUresult result) const {
  const char* name = nullptr;
  const char* description = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) {
    return Text("CUDA error ", static_cast<int>(result));
  }
  if (cuGetErrorString(result, &description) != CUDA_SUCCESS || description == nullptr) return name;
  return Text(name, " (", description, ")");
}

Status CudaDriver::Check(CUresult result, const char* call, std::string_view purpose) const {
  if (result == CUDA_SUCCESS) return {};
  return Fail(FUSEC_NO_DEVICE, call, purpose.empty() ? "" : " for ", purpose,
              " failed: ", ErrorText(result));
}

}  // namespace fusec::runtime
