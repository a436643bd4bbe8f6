#include "runtime/src/cuda/cuda_operation.h"

namespace fusec::runtime {
namespace {

Status EnqueueMatmul(const OperationEnvironment& environment, const MatmulOperation& matmul,
                     CUstream stream) {
  return environment.cublaslt->Run(matmul.plan, matmul.pointers, environment.workspace, stream,
                                   matmul.name);
}

}  // namespace

std::vector<void*> KernelOperation::ArgumentPointers() const {
  std::vector<void*> pointers;
  pointers.reserve(starts.size());
  for (const size_t start : starts) pointers.push_back(const_cast<uint64_t*>(&arguments[start]));
  return pointers;
}

std::string Purpose(const Operation& operation) {
  if (std::holds_alternative<CopyOperation>(operation)) return "the inputs";
  if (const auto* kernel = std::get_if<KernelOperation>(&operation))
    return Text("kernel ", kernel->name);
  return std::string(std::get<MatmulOperation>(operation).name);
}

Status Enqueue(const OperationEnvironment& environment, const Operation& operation,
               CUstream stream) {
  const CudaContext& context = *environment.context;
  if (const auto* copy = std::get_if<CopyOperation>(&operation)) {
    if (!copy->from_host)
      return FUSEC_CUDA(context, Purpose(operation), cuMemcpyDtoDAsync, copy->to, copy->from,
                        copy->bytes, stream);
    return FUSEC_CUDA(context, Purpose(operation), cuMemcpyHtoDAsync, copy->to,
                      reinterpret_cast<const void*>(copy->from), copy->bytes, stream);
  }
  if (const auto* matmul = std::get_if<MatmulOperation>(&operation)) {
    return EnqueueMatmul(environment, *matmul, stream);
  }
  const KernelOperation& kernel = std::get<KernelOperation>(operation);
  std::vector<void*> arguments = kernel.ArgumentPointers();
  return FUSEC_CUDA(context, Purpose(operation), cuLaunchKernel, kernel.function, kernel.blocks, 1,
                    1, kernel.block_size, 1, 1, kernel.shared_bytes, stream, arguments.data(),
                    nullptr);
}

StatusOr<std::shared_ptr<const CudaGraph>> CaptureMatmul(const OperationEnvironment& environment,
                                                         const MatmulOperation& matmul) {
  const CudaContext& context = *environment.context;
  const CUstream stream = environment.capture_stream;
  // RELAXED: the library may load code during the capture, and other threads may make calls that a
  // capture would otherwise forbid.
  FUSEC_RT_TRY(FUSEC_CUDA(context, matmul.name, cuStreamBeginCapture, stream,
                          CU_STREAM_CAPTURE_MODE_RELAXED));
  const Status enqueued = EnqueueMatmul(environment, matmul, stream);
  CUgraph captured = nullptr;
  // Called after an error too, because the stream must not stay in capture mode.
  const Status ended = FUSEC_CUDA(context, matmul.name, cuStreamEndCapture, stream, &captured);
  auto graph = std::make_shared<const CudaGraph>(context, captured);
  FUSEC_RT_TRY(enqueued);
  FUSEC_RT_TRY(ended);
  return graph;
}

}  // namespace fusec::runtime
