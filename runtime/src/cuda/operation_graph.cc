#include "runtime/src/cuda/operation_graph.h"

#include <algorithm>

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

// The parameters of a copy of consecutive bytes; graphs have only three-dimensional copies.
CUDA_MEMCPY3D CopyParameters(const CopyOperation& copy) {
  CUDA_MEMCPY3D parameters = {};
  parameters.WidthInBytes = copy.bytes;
  parameters.Height = parameters.Depth = 1;
  parameters.srcPitch = parameters.dstPitch = copy.bytes;
  parameters.srcHeight = parameters.dstHeight = 1;
  if (copy.from_host) {
    parameters.srcMemoryType = CU_MEMORYTYPE_HOST;
    parameters.srcHost = reinterpret_cast<const void*>(copy.from);
  } else {
    parameters.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    parameters.srcDevice = copy.from;
  }
  parameters.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  parameters.dstDevice = copy.to;
  return parameters;
}

// Like CudaContext::Check, but it builds the text of the purpose only after an error, because this
// is on the critical path of a run.
Status CheckNode(const CudaContext& context, CUresult result, const char* call,
                 const Operation& operation) {
  if (result == CUDA_SUCCESS) return {};
  return context.Check(result, call, Purpose(operation));
}

StatusOr<CUgraphNode> AddNode(const CudaContext& context, CUgraph graph, const Operation& operation,
                              CUgraphNode previous) {
  const CudaDriver& driver = context.driver();
  const CUgraphNode* dependencies = previous == nullptr ? nullptr : &previous;
  const size_t count = previous == nullptr ? 0 : 1;
  CUgraphNode node = nullptr;
  if (const auto* kernel = std::get_if<KernelOperation>(&operation)) {
    std::vector<void*> arguments = kernel->ArgumentPointers();
    const CUDA_KERNEL_NODE_PARAMS parameters = KernelParameters(*kernel, arguments);
    const CUresult result =
        driver.cuGraphAddKernelNode(&node, graph, dependencies, count, &parameters);
    FUSEC_RT_TRY(CheckNode(context, result, "cuGraphAddKernelNode", operation));
  } else if (const auto* copy = std::get_if<CopyOperation>(&operation)) {
    const CUDA_MEMCPY3D parameters = CopyParameters(*copy);
    const CUresult result = driver.cuGraphAddMemcpyNode(&node, graph, dependencies, count,
                                                        &parameters, context.handle());
    FUSEC_RT_TRY(CheckNode(context, result, "cuGraphAddMemcpyNode", operation));
  } else {
    const CUgraph child = std::get<MatmulOperation>(operation).captured->get();
    const CUresult result =
        driver.cuGraphAddChildGraphNode(&node, graph, dependencies, count, child);
    FUSEC_RT_TRY(CheckNode(context, result, "cuGraphAddChildGraphNode", operation));
  }
  return node;
}

bool IsDependentLaunch(const Operation& operation) {
  const auto* kernel = std::get_if<KernelOperation>(&operation);
  return kernel != nullptr && kernel->dependent_launch;
}

Status AddProgrammaticEdge(const CudaContext& context, CUgraph graph, CUgraphNode from,
                           CUgraphNode to) {
  CUgraphEdgeData edge = {};
  edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  return FUSEC_CUDA(context, {}, cuGraphAddDependencies, graph, &from, &to, &edge, 1);
}

bool SameShape(const Operation& a, const Operation& b) {
  if (a.index() != b.index()) return false;
  if (const auto* copy = std::get_if<CopyOperation>(&a)) {
    const auto& other = std::get<CopyOperation>(b);
    return copy->from == other.from && copy->to == other.to;
  }
  if (const auto* matmul = std::get_if<MatmulOperation>(&a))
    return *matmul == std::get<MatmulOperation>(b);
  const auto &kernel = std::get<KernelOperation>(a), &other = std::get<KernelOperation>(b);
  return kernel.dependent_launch == other.dependent_launch &&
         kernel.cluster_blocks == other.cluster_blocks;
}

}  // namespace

StatusOr<std::vector<OperationGraph>> OperationGraph::Build(const OperationEnvironment& environment,
                                                            std::vector<Operation> operations,
                                                            size_t count) {
  const CudaContext& context = *environment.context;
  auto nodes = std::make_shared<Nodes>();
  CUgraph graph = nullptr;
  FUSEC_RT_TRY(FUSEC_CUDA(context, {}, cuGraphCreate, &graph, 0));
  nodes->graph = CudaGraph(context, graph);
  CUgraphNode previous = nullptr;
  for (size_t i = 0; i < operations.size(); ++i) {
    const bool is_early =
        i > 0 && IsDependentLaunch(operations[i - 1]) && IsDependentLaunch(operations[i]);
    FUSEC_RT_ASSIGN(const CUgraphNode node,
                    AddNode(context, graph, operations[i], is_early ? nullptr : previous));
    if (is_early) FUSEC_RT_TRY(AddProgrammaticEdge(context, graph, previous, node));
    // The graph has its own copy of what was captured.
    if (auto* matmul = std::get_if<MatmulOperation>(&operations[i])) matmul->captured.reset();
    nodes->nodes.push_back(node);
    previous = node;
  }
  std::vector<OperationGraph> graphs(count);
  for (OperationGraph& made : graphs) {
    CUgraphExec executable = nullptr;
    FUSEC_RT_TRY(FUSEC_CUDA(context, {}, cuGraphInstantiate, &executable, graph, 0));
    made.executable_ = CudaGraphExec(context, executable);
    made.graph_ = nodes;
    made.operations_ = operations;
  }
  return graphs;
}

bool OperationGraph::Fits(const std::vector<Operation>& operations) const {
  return std::equal(operations_.begin(), operations_.end(), operations.begin(), operations.end(),
                    SameShape);
}

bool OperationGraph::HasOnlyKernels() const {
  return std::all_of(operations_.begin(), operations_.end(), [](const Operation& operation) {
    return std::holds_alternative<KernelOperation>(operation);
  });
}

StatusOr<bool> OperationGraph::UpdateNode(const CudaContext& context, size_t i,
                                          const Operation& operation) const {
  const CudaDriver& driver = context.driver();
  const CUgraphNode node = graph_->nodes[i];
  CUresult result = CUDA_SUCCESS;
  const char* call = nullptr;
  if (const auto* kernel = std::get_if<KernelOperation>(&operation)) {
    std::vector<void*> arguments = kernel->ArgumentPointers();
    const CUDA_KERNEL_NODE_PARAMS parameters = KernelParameters(*kernel, arguments);
    call = "cuGraphExecKernelNodeSetParams";
    result = driver.cuGraphExecKernelNodeSetParams(executable_.get(), node, &parameters);
  } else {
    const CUDA_MEMCPY3D parameters = CopyParameters(std::get<CopyOperation>(operation));
    call = "cuGraphExecMemcpyNodeSetParams";
    result = driver.cuGraphExecMemcpyNodeSetParams(executable_.get(), node, &parameters,
                                                   context.handle());
  }
  if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE)
    return false;
  FUSEC_RT_TRY(CheckNode(context, result, call, operation));
  return true;
}

StatusOr<bool> OperationGraph::Update(const OperationEnvironment& environment,
                                      const std::vector<Operation>& operations) {
  for (size_t i = 0; i < operations.size(); ++i) {
    if (operations[i] == operations_[i]) continue;
    FUSEC_RT_ASSIGN(const bool updated, UpdateNode(*environment.context, i, operations[i]));
    if (!updated) return false;
    operations_[i] = operations[i];
  }
  return true;
}

}  // namespace fusec::runtime
