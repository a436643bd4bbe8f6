// CudaExecutor's products of cuBLASLt, captured for its graphs.
#include <algorithm>

#include "runtime/src/artifact/dtype.h"
#include "runtime/src/cuda/cuda_executor.h"

namespace fusec::runtime {

// Gives each product its captured kernels. All products run once before the first is captured.
Status CudaExecutor::Capture(std::vector<Operation>& operations) {
  std::vector<MatmulOperation*> products;
  for (Operation& operation : operations) {
    if (auto* matmul = std::get_if<MatmulOperation>(&operation)) products.push_back(matmul);
  }
  if (products.empty()) return {};
  FinishEarlier();  // products are tried in the arena
  FUSEC_RT_TRY(FUSEC_CUDA(context_, {}, cuStreamSynchronize, stream_.get()));  // to capture from
  for (const MatmulOperation* product : products) {
    if (warmed_up_.insert(product->plan.problem).second) FUSEC_RT_TRY(WarmUp(*product));
  }
  for (MatmulOperation* product : products) {
    FUSEC_RT_ASSIGN(product->captured, CaptureMatmul(Environment(), *product));
  }
  return {};
}

bool CudaExecutor::IsOwn(CUdeviceptr address) const {
  return (address >= arena_.get() && address < arena_.get() + arena_bytes_) ||
         (address >= staging_device_.get() &&
          address < staging_device_.get() + staging_device_bytes_);
}

// Lets cuBLASLt load the code of a product that it may not have run before, which it could not do
// safely while a stream is captured. The result is overwritten by the run that follows, except that
// memory of the caller is not touched outside of it: scratch takes its place.
Status CudaExecutor::WarmUp(const MatmulOperation& matmul) {
  MatmulOperation trial = matmul;
  DeviceMemory scratch;
  if (!IsOwn(trial.pointers.d)) {
    const MatmulProblem& problem = trial.plan.problem;
    const int64_t elements = (problem.batch - 1) * problem.d_stride + problem.m * problem.n;
    const size_t bytes = static_cast<size_t>(elements * DtypeBytes(problem.dtype));
    FUSEC_RT_ASSIGN(scratch, AllocateDevice(context_, bytes, "the first run of a matmul"));
    trial.pointers.d = scratch.get();
  }
  FUSEC_RT_TRY(Enqueue(Environment(), trial, stream_.get()));
  return FUSEC_CUDA(context_, "the first run of a matmul", cuStreamSynchronize, stream_.get());
}

}  // namespace fusec::runtime
