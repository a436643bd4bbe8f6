#pragma once

#include <cuda.h>

#include <string>

#include "runtime/src/status.h"

namespace fusec::runtime {

// Every function of the driver that the runtime calls. cuda.h defines a name such as cuMemAlloc as
// the symbol of the version that it declares (cuMemAlloc_v2), so a member always has the type of
// its declaration.
#define FUSEC_CUDA_FUNCTIONS(F)                                                                    \
  F(cuInit) F(cuGetErrorName) F(cuGetErrorString)                                                  \
  F(cuDeviceGetCount) F(cuDeviceGet) F(cuDeviceGetName) F(cuDeviceGetAttribute)                    \
  F(cuDeviceCanAccessPeer) F(cuCtxEnablePeerAccess)                                               \
  F(cuDevicePrimaryCtxRetain) F(cuDevicePrimaryCtxRelease) F(cuCtxPushCurrent) F(cuCtxPopCurrent)  \
  F(cuModuleLoadData) F(cuModuleUnload) F(cuModuleGetFunction)                                     \
  F(cuFuncGetAttribute) F(cuFuncSetAttribute) F(cuFuncLoad)                                        \
  F(cuStreamCreate) F(cuStreamDestroy) F(cuStreamSynchronize) F(cuStreamWaitEvent)                 \
  F(cuStreamBeginCapture) F(cuStreamEndCapture)                                                    \
  F(cuEventCreate) F(cuEventDestroy) F(cuEventRecord) F(cuEventSynchronize) F(cuEventElapsedTime)  \
  F(cuMemGetInfo) F(cuMemAlloc) F(cuMemFree) F(cuMemHostAlloc) F(cuMemFreeHost)                    \
  F(cuMemHostRegister) F(cuMemHostUnregister)                                                      \
  F(cuMemHostGetDevicePointer) F(cuPointerGetAttributes)                                           \
  F(cuMemcpyHtoDAsync) F(cuMemcpyDtoHAsync) F(cuMemcpyDtoDAsync)                                   \
  F(cuLaunchKernel) F(cuLaunchHostFunc)                                                            \
  F(cuGraphCreate) F(cuGraphDestroy) F(cuGraphAddKernelNode) F(cuGraphAddMemcpyNode)               \
  F(cuGraphAddChildGraphNode) F(cuGraphAddDependencies)                                            \
  F(cuGraphInstantiate) F(cuGraphExecDestroy) F(cuGraphLaunch)                                     \
  F(cuGraphExecKernelNodeSetParams) F(cuGraphExecMemcpyNodeSetParams)

// The CUDA driver, opened when it is first needed.
struct CudaDriver {
#define FUSEC_DECLARE(name) decltype(&::name) name = nullptr;
  FUSEC_CUDA_FUNCTIONS(FUSEC_DECLARE)
#undef FUSEC_DECLARE

  // The initialised (cuInit) table of this process. FUSEC_NO_DEVICE: there is no driver, it is
  // older than CUDA 13.0, or it finds no GPU.
  static StatusOr<const CudaDriver*> Get();

  // "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)"
  std::string ErrorText(CUresult result) const;

  // Returns an error that names the call and, unless it is empty, the purpose ("kernel
  // k03_bias_relu").
  Status Check(CUresult result, const char* call, std::string_view purpose = {}) const;
};

// "12.4" for 12040, the form of cuDriverGetVersion.
std::string CudaVersionText(int version);

}  // namespace fusec::runtime
