#include "runtime/src/cuda_operation.h"

namespace fusec::runtime {
namespace {

CUDA_KERNEL_NODE_PARAMS KernelParameters(const KernelOperation& kernel,
                                         std::vector<void*>& arguments) {
  CUDA_KERNEL_NODE_PARAMS parameters = {};
  parameters.func = kernel.function;
  parameters.gridDimX = kernel.blocks;
  parameters.gridDimY = parameters.gridDimZ = 1;
  parameters.blockDimX = kernel.block_size;
  parameters.blockDimY = parameters.blockDimZ = 1;
  parameters.sharedMemBytes = kernel.shared_bytes;
  parameters.kernelParams = arguments.data();
  return parameters;
}

// A run of bytes, as the three-dimensional copy that graphs know.
CUDA_MEMCPY3D CopyParameters(const CopyOperation& copy) {
  CUDA_MEMCPY3D parameters = {};
  parameters.WidthInBytes = copy.bytes;
  parameters.Height = parameters.Depth = 1;
  parameters.srcPitch = parameters.dstPitch = copy.bytes;
  parameters.srcHeight = parameters.dstHeight = 1;
  if (copy.to_device) {
    parameters.srcMemoryType = CU_MEMORYTYPE_HOST;
    parameters.srcHost = copy.host;
    parameters.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    parameters.dstDevice = copy.device;
  } else {
    parameters.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    parameters.srcDevice = copy.device;
    parameters.dstMemoryType = CU_MEMORYTYPE_HOST;
    parameters.dstHost = copy.host;
  }
  return parameters;
}

std::string Purpose(const KernelOperation& kernel) { return Text("kernel ", kernel.name); }

Status EnqueueCopy(const CudaContext& context, const CopyOperation& copy, CUstream stream) {
  if (copy.to_device) {
    return FUSEC_CUDA(context, "the inputs", cuMemcpyHtoDAsync, copy.device, copy.host, copy.bytes,
                      stream);
  }
  return FUSEC_CUDA(context, "the outputs", cuMemcpyDtoHAsync, copy.host, copy.device, copy.bytes,
                    stream);
}

Status EnqueueMatmul(const OperationEnvironment& environment, const MatmulOperation& matmul,
                     CUstream stream) {
  return environment.cublaslt->Run(matmul.plan, matmul.pointers, environment.workspace, stream,
                                   matmul.name);
}

// The product's kernels as a graph of their own.
StatusOr<CudaGraph> CaptureMatmul(const OperationEnvironment& environment,
                                  const MatmulOperation& matmul) {
  const CudaContext& context = *environment.context;
  const CUstream stream = environment.capture_stream;
  // Relaxed: the library may load its code meanwhile, and other threads are not held to the rules
  // of capturing.
  FUSEC_RT_TRY(FUSEC_CUDA(context, matmul.name, cuStreamBeginCapture, stream,
                          CU_STREAM_CAPTURE_MODE_RELAXED));
  const Status enqueued = EnqueueMatmul(environment, matmul, stream);
  CUgraph captured = nullptr;
  // Also after an error, for the stream must not stay in the state of capturing.
  const Status ended = FUSEC_CUDA(context, matmul.name, cuStreamEndCapture, stream, &captured);
  CudaGraph graph(context, captured);
  FUSEC_RT_TRY(enqueued);
  FUSEC_RT_TRY(ended);
  return graph;
}

StatusOr<CUgraphNode> AddNode(const OperationEnvironment& environment, CUgraph graph,
                              const Operation& operation, CUgraphNode previous) {
  const CudaContext& context = *environment.context;
  const CUgraphNode* dependencies = previous == nullptr ? nullptr : &previous;
  const size_t count = previous == nullptr ? 0 : 1;
  CUgraphNode node = nullptr;
  if (const auto* kernel = std::get_if<KernelOperation>(&operation)) {
    std::vector<void*> arguments = kernel->ArgumentPointers();
    const CUDA_KERNEL_NODE_PARAMS parameters = KernelParameters(*kernel, arguments);
    FUSEC_RT_TRY(FUSEC_CUDA(context, Purpose(*kernel), cuGraphAddKernelNode, &node, graph,
                            dependencies, count, &parameters));
  } else if (const auto* copy = std::get_if<CopyOperation>(&operation)) {
    const CUDA_MEMCPY3D parameters = CopyParameters(*copy);
    FUSEC_RT_TRY(FUSEC_CUDA(context, copy->to_device ? "the inputs" : "the outputs",
                            cuGraphAddMemcpyNode, &node, graph, dependencies, count, &parameters,
                            context.handle()));
  } else {
    const MatmulOperation& matmul = std::get<MatmulOperation>(operation);
    FUSEC_RT_ASSIGN(const CudaGraph child, CaptureMatmul(environment, matmul));
    FUSEC_RT_TRY(FUSEC_CUDA(context, matmul.name, cuGraphAddChildGraphNode, &node, graph,
                            dependencies, count, child.get()));
  }
  return node;
}

}  // namespace

std::vector<void*> KernelOperation::ArgumentPointers() const {
  std::vector<void*> pointers;
  pointers.reserve(starts.size());
  for (const size_t start : starts) pointers.push_back(const_cast<uint64_t*>(&arguments[start]));
  return pointers;
}

Status Enqueue(const OperationEnvironment& environment, const Operation& operation,
               CUstream stream) {
  const CudaContext& context = *environment.context;
  if (const auto* copy = std::get_if<CopyOperation>(&operation)) {
    return EnqueueCopy(context, *copy, stream);
  }
  if (const auto* matmul = std::get_if<MatmulOperation>(&operation)) {
    return EnqueueMatmul(environment, *matmul, stream);
  }
  const KernelOperation& kernel = std::get<KernelOperation>(operation);
  std::vector<void*> arguments = kernel.ArgumentPointers();
  return FUSEC_CUDA(context, Purpose(kernel), cuLaunchKernel, kernel.function, kernel.blocks, 1, 1,
                    kernel.block_size, 1, 1, kernel.shared_bytes, stream, arguments.data(),
                    nullptr);
}

StatusOr<OperationGraph> OperationGraph::Build(const OperationEnvironment& environment,
                                               const std::vector<Operation>& operations) {
  const CudaContext& context = *environment.context;
  OperationGraph result;
  CUgraph graph = nullptr;
  FUSEC_RT_TRY(FUSEC_CUDA(context, {}, cuGraphCreate, &graph, 0));
  result.graph_ = CudaGraph(context, graph);
  CUgraphNode previous = nullptr;
  for (const Operation& operation : operations) {
    FUSEC_RT_ASSIGN(previous, AddNode(environment, graph, operation, previous));
    result.nodes_.push_back(previous);
  }
  CUgraphExec executable = nullptr;
  FUSEC_RT_TRY(FUSEC_CUDA(context, {}, cuGraphInstantiate, &executable, graph, 0));
  result.executable_ = CudaGraphExec(context, executable);
  return result;
}

StatusOr<bool> OperationGraph::Patch(const OperationEnvironment& environment,
                                     const std::vector<Operation>& before,
                                     const std::vector<Operation>& after) {
  if (before.size() != after.size()) return false;
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i] == after[i]) continue;
    const auto* old_kernel = std::get_if<KernelOperation>(&before[i]);
    const auto* new_kernel = std::get_if<KernelOperation>(&after[i]);
    if (old_kernel == nullptr || new_kernel == nullptr ||
        old_kernel->function != new_kernel->function) {
      return false;
    }
  }
  const CudaContext& context = *environment.context;
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i] == after[i]) continue;
    const KernelOperation& kernel = std::get<KernelOperation>(after[i]);
    std::vector<void*> arguments = kernel.ArgumentPointers();
    const CUDA_KERNEL_NODE_PARAMS parameters = KernelParameters(kernel, arguments);
    FUSEC_RT_TRY(FUSEC_CUDA(context, Purpose(kernel), cuGraphExecKernelNodeSetParams,
                            executable_.get(), nodes_[i], &parameters));
  }
  return true;
}

Status OperationGraph::Launch(const CudaContext& context, CUstream stream) const {
  return FUSEC_CUDA(context, {}, cuGraphLaunch, executable_.get(), stream);
}

}  // namespace fusec::runtime
