#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/runtime/fake_gpu.h"

namespace fusec::runtime {

// Reads one of the arguments that a kernel is launched with.
template <class T>
T Argument(void** arguments, int i) {
  return *static_cast<T*>(arguments[i]);
}

inline void* HostPointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

inline void FillDeviceFunctions(CudaDriver& d) {
  d.cuInit = [](unsigned) { return CUDA_SUCCESS; };
  d.cuGetErrorName = [](CUresult result, const char** name) {
    *name = result == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR";
    return CUDA_SUCCESS;
  };
  d.cuGetErrorString = [](CUresult, const char** text) {
    *text = "an error";
    return CUDA_SUCCESS;
  };
  d.cuDeviceGetCount = [](int* count) { return *count = 1, CUDA_SUCCESS; };
  d.cuDeviceGet = [](CUdevice* device, int ordinal) { return *device = ordinal, CUDA_SUCCESS; };
  d.cuDeviceGetName = [](char* name, int, CUdevice) {
    return std::strcpy(name, "Fake"), CUDA_SUCCESS;
  };
  d.cuDeviceGetAttribute = [](int* value, CUdevice_attribute attribute, CUdevice) {
    const int capability = FakeGpu::current->capability;
    *value = attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT                ? 132
             : attribute == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN ? 227 << 10
             : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR          ? capability / 10
                                                                                  : capability % 10;
    return CUDA_SUCCESS;
  };
  d.cuDevicePrimaryCtxRetain = [](CUcontext* context, CUdevice) {
    ++FakeGpu::current->live;
    return *context = reinterpret_cast<CUcontext>(1), CUDA_SUCCESS;
  };
  d.cuDevicePrimaryCtxRelease = [](CUdevice) { return --FakeGpu::current->live, CUDA_SUCCESS; };
  d.cuCtxPushCurrent = [](CUcontext) { return CUDA_SUCCESS; };
  d.cuCtxPopCurrent = [](CUcontext*) { return CUDA_SUCCESS; };
  d.cuModuleLoadData = [](CUmodule* module, const void* image) {
    ++FakeGpu::current->live;
    FakeGpu::current->modules.emplace_back(static_cast<const char*>(image), 4);
    return *module = reinterpret_cast<CUmodule>(1), CUDA_SUCCESS;
  };
  d.cuModuleUnload = [](CUmodule) { return --FakeGpu::current->live, CUDA_SUCCESS; };
  d.cuModuleGetFunction = [](CUfunction* function, CUmodule, const char* name) {
    const auto found = FakeGpu::current->kernels.find(name);
    if (found == FakeGpu::current->kernels.end()) return CUDA_ERROR_NOT_FOUND;
    *function = reinterpret_cast<CUfunction>(&found->second);
    return CUDA_SUCCESS;
  };
  d.cuFuncSetAttribute = [](CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; };
  d.cuFuncGetAttribute = [](int* value, CUfunction_attribute attribute, CUfunction function) {
    if (attribute != CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH) return CUDA_ERROR_INVALID_VALUE;
    return *value = reinterpret_cast<const FakeGpu::Kernel*>(function)->cluster_blocks,
           CUDA_SUCCESS;
  };
  d.cuFuncLoad = [](CUfunction) { return CUDA_SUCCESS; };
}

inline void FillMemoryFunctions(CudaDriver& d) {
  d.cuMemGetInfo = [](size_t* free, size_t* total) {
    return *free = FakeGpu::current->free_bytes, *total = size_t{1} << 30, CUDA_SUCCESS;
  };
  d.cuMemAlloc = [](CUdeviceptr* memory, size_t bytes) {
    FakeGpu& gpu = *FakeGpu::current;
    if (bytes > gpu.free_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    gpu.free_bytes -= bytes;
    *memory = reinterpret_cast<CUdeviceptr>(gpu.Allocate(bytes));
    gpu.allocations[*memory] = bytes;
    ++gpu.live;
    return CUDA_SUCCESS;
  };
  d.cuMemFree = [](CUdeviceptr memory) {
    FakeGpu& gpu = *FakeGpu::current;
    gpu.free_bytes += gpu.allocations.at(memory);
    gpu.allocations.erase(memory);
    --gpu.live;
    return gpu.Free(HostPointer(memory)), CUDA_SUCCESS;
  };
  d.cuMemHostAlloc = [](void** memory, size_t bytes, unsigned) {
    FakeGpu& gpu = *FakeGpu::current;
    ++gpu.live;
    *memory = gpu.Allocate(bytes);
    gpu.pinned[*memory] = bytes;
    gpu.pinned_bytes += bytes;
    gpu.most_pinned_bytes = std::max(gpu.most_pinned_bytes, gpu.pinned_bytes);
    return CUDA_SUCCESS;
  };
  d.cuMemHostRegister = [](void* memory, size_t bytes, unsigned) {
    ++FakeGpu::current->live;
    FakeGpu::current->pinned[memory] = bytes;
    return CUDA_SUCCESS;
  };
  d.cuMemHostUnregister = [](void* memory) {
    FakeGpu::current->pinned.erase(memory);
    return --FakeGpu::current->live, CUDA_SUCCESS;
  };
  d.cuMemFreeHost = [](void* memory) {
    FakeGpu& gpu = *FakeGpu::current;
    gpu.pinned_bytes -= gpu.pinned.at(memory);
    gpu.pinned.erase(memory);
    --gpu.live;
    return gpu.Free(memory), CUDA_SUCCESS;
  };
  d.cuPointerGetAttributes = [](unsigned, CUpointer_attribute*, void** values, CUdeviceptr place) {
    const char* address = static_cast<const char*>(HostPointer(place));
    for (const auto& [memory, bytes] : FakeGpu::current->pinned) {
      const char* begin = static_cast<const char*>(memory);
      if (address >= begin && address < begin + bytes)
        *static_cast<unsigned*>(values[0]) = CU_MEMORYTYPE_HOST;
    }
    return CUDA_SUCCESS;
  };
  d.cuMemHostGetDevicePointer = [](CUdeviceptr* address, void* memory, unsigned) {
    return *address = reinterpret_cast<CUdeviceptr>(memory), CUDA_SUCCESS;
  };
}

inline void FillStreamFunctions(CudaDriver& d) {
  using Stream = FakeGpu::Stream;
  d.cuStreamCreate = [](CUstream* stream, unsigned) {
    ++FakeGpu::current->live;
    return *stream = reinterpret_cast<CUstream>(new Stream), CUDA_SUCCESS;
  };
  d.cuStreamDestroy = [](CUstream stream) {
    --FakeGpu::current->live;
    FakeGpu::current->Drain(FakeGpu::Of(stream));
    return delete FakeGpu::Of(stream), CUDA_SUCCESS;
  };
  d.cuStreamSynchronize = [](CUstream stream) {
    FakeGpu::current->Drain(FakeGpu::Of(stream));
    return FakeGpu::current->Waited();
  };
  d.cuStreamWaitEvent = [](CUstream stream, CUevent event, unsigned) {
    FakeGpu::Of(stream)->queue.push_back([recorded = *reinterpret_cast<FakeGpu::Event*>(event)] {
      if (recorded.stream != nullptr)  // otherwise it was never recorded
        FakeGpu::current->Drain(recorded.stream, recorded.reached.get());
    });
    return CUDA_SUCCESS;
  };
  d.cuEventCreate = [](CUevent* event, unsigned) {
    ++FakeGpu::current->live;
    return *event = reinterpret_cast<CUevent>(new FakeGpu::Event), CUDA_SUCCESS;
  };
  d.cuEventDestroy = [](CUevent event) {
    --FakeGpu::current->live;
    return delete reinterpret_cast<FakeGpu::Event*>(event), CUDA_SUCCESS;
  };
  d.cuEventRecord = [](CUevent event, CUstream stream) {
    const auto reached = std::make_shared<bool>(false);
    *reinterpret_cast<FakeGpu::Event*>(event) = {FakeGpu::Of(stream), reached};
    FakeGpu::Of(stream)->queue.push_back([reached] { *reached = true; });
    return CUDA_SUCCESS;
  };
  d.cuEventSynchronize = [](CUevent event) {
    const auto& [stream, reached] = *reinterpret_cast<FakeGpu::Event*>(event);
    if (stream == nullptr) return CUDA_SUCCESS;
    if (!*reached) FakeGpu::current->Drain(stream, reached.get());
    return FakeGpu::current->Waited();
  };
  d.cuEventElapsedTime = [](float* ms, CUevent, CUevent) { return *ms = 0.5f, CUDA_SUCCESS; };
  d.cuMemcpyHtoDAsync = [](CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
    FakeGpu::Of(stream)->queue.push_back(FakeGpu::CopyOf(HostPointer(to), from, bytes));
    return CUDA_SUCCESS;
  };
  d.cuMemcpyDtoHAsync = [](void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
    FakeGpu::Of(stream)->queue.push_back(FakeGpu::CopyOf(to, HostPointer(from), bytes));
    return CUDA_SUCCESS;
  };
  d.cuMemcpyDtoDAsync = [](CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    FakeGpu::Of(stream)->queue.push_back(
        FakeGpu::CopyOf(HostPointer(to), HostPointer(from), bytes));
    return CUDA_SUCCESS;
  };
  d.cuLaunchKernel = [](CUfunction function, unsigned blocks, unsigned, unsigned,
                        unsigned block_size, unsigned, unsigned, unsigned, CUstream stream,
                        void** arguments, void**) {
    FakeGpu::Of(stream)->queue.push_back(FakeGpu::LaunchOf(
        reinterpret_cast<const FakeGpu::Kernel*>(function), blocks, block_size, arguments));
    return CUDA_SUCCESS;
  };
}

inline void FillHostFunctions(CudaDriver& d) {
  d.cuLaunchHostFunc = [](CUstream stream, CUhostFn function, void* data) {
    FakeGpu::Of(stream)->queue.push_back([=] { function(data); });
    return CUDA_SUCCESS;
  };
}

// Nodes may only be added as a chain; the edge to the node before may be added later.
inline CUresult AddFakeNode(CUgraphNode* made, CUgraph handle, const CUgraphNode* dependencies,
                            size_t count, FakeGpu::Node node) {
  auto* graph = reinterpret_cast<FakeGpu::Graph*>(handle);
  node.is_linked = graph->nodes.empty();
  if (count > 0) {
    if (graph->nodes.empty() ||
        reinterpret_cast<FakeGpu::Node*>(dependencies[0]) != graph->nodes.back())
      return CUDA_ERROR_INVALID_VALUE;
    node.is_linked = true;
  }
  graph->nodes.push_back(new FakeGpu::Node(std::move(node)));
  *made = reinterpret_cast<CUgraphNode>(graph->nodes.back());
  return CUDA_SUCCESS;
}

inline void FillGraphFunctions(CudaDriver& d) {
  d.cuGraphCreate = [](CUgraph* graph, unsigned) {
    ++FakeGpu::current->live;
    ++FakeGpu::current->built;
    return *graph = reinterpret_cast<CUgraph>(new FakeGpu::Graph), CUDA_SUCCESS;
  };
  d.cuGraphDestroy = [](CUgraph graph) {
    --FakeGpu::current->live;
    return delete reinterpret_cast<FakeGpu::Graph*>(graph), CUDA_SUCCESS;
  };
  d.cuGraphAddKernelNode = [](CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                              size_t count, const CUDA_KERNEL_NODE_PARAMS* p) {
    const auto* kernel = reinterpret_cast<const FakeGpu::Kernel*>(p->func);
    return AddFakeNode(
        node, graph, dependencies, count,
        {FakeGpu::LaunchOf(kernel, p->gridDimX, p->blockDimX, p->kernelParams), kernel});
  };
  d.cuGraphAddMemcpyNode = [](CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                              size_t count, const CUDA_MEMCPY3D* p, CUcontext) {
    return AddFakeNode(node, graph, dependencies, count, {FakeGpu::CopyOf(*p)});
  };
  d.cuGraphAddChildGraphNode = [](CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                  size_t count, CUgraph child) {
    const auto* nodes = reinterpret_cast<FakeGpu::Graph*>(child);
    return AddFakeNode(node, graph, dependencies, count, {nodes->All()});
  };
  d.cuGraphAddDependencies = [](CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                const CUgraphEdgeData* edge, size_t) {
    const auto& nodes = reinterpret_cast<FakeGpu::Graph*>(handle)->nodes;
    auto* last = reinterpret_cast<FakeGpu::Node*>(*to);
    auto* before = reinterpret_cast<FakeGpu::Node*>(*from);
    const bool is_chain = nodes.size() > 1 && last == nodes.back() && !last->is_linked &&
                          before == nodes[nodes.size() - 2] && before->kernel && last->kernel;
    if (!is_chain || edge->type != CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC ||
        edge->from_port != CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC)
      return CUDA_ERROR_INVALID_VALUE;
    ++FakeGpu::current->programmatic_edges;
    last->is_linked = true;
    return CUDA_SUCCESS;
  };
}

inline void FillExecutableGraphFunctions(CudaDriver& d) {
  using Exec = FakeGpu::Exec;
  d.cuGraphInstantiate = [](CUgraphExec* made, CUgraph handle, unsigned long long) {
    const auto* graph = reinterpret_cast<FakeGpu::Graph*>(handle);
    for (const FakeGpu::Node* node : graph->nodes) {
      if (!node->is_linked) return CUDA_ERROR_INVALID_VALUE;
    }
    Exec* exec = new Exec{graph->nodes, {}};
    for (FakeGpu::Node* node : graph->nodes) exec->work[node] = node->work;
    ++FakeGpu::current->instantiated;
    ++FakeGpu::current->live;
    return *made = reinterpret_cast<CUgraphExec>(exec), CUDA_SUCCESS;
  };
  d.cuGraphExecDestroy = [](CUgraphExec exec) {
    --FakeGpu::current->live;
    return delete reinterpret_cast<Exec*>(exec), CUDA_SUCCESS;
  };
  d.cuGraphExecKernelNodeSetParams = [](CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS* p) {
    ++FakeGpu::current->patched;
    auto* const changed = reinterpret_cast<FakeGpu::Node*>(node);
    // As in driver 580.159, the node keeps launching whole clusters of the size that it was created with.
    const unsigned cluster = std::max(1, changed->kernel->cluster_blocks);
    reinterpret_cast<Exec*>(exec)->work.at(changed) =
        FakeGpu::LaunchOf(reinterpret_cast<const FakeGpu::Kernel*>(p->func),
                          p->gridDimX / cluster * cluster, p->blockDimX, p->kernelParams);
    return CUDA_SUCCESS;
  };
  d.cuGraphExecMemcpyNodeSetParams = [](CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* p,
                                        CUcontext) {
    ++FakeGpu::current->patched;
    reinterpret_cast<Exec*>(exec)->work.at(reinterpret_cast<FakeGpu::Node*>(node)) =
        FakeGpu::CopyOf(*p);
    return CUDA_SUCCESS;
  };
  d.cuGraphLaunch = [](CUgraphExec handle, CUstream stream) {
    const auto* exec = reinterpret_cast<const Exec*>(handle);
    ++FakeGpu::current->launched;
    for (FakeGpu::Node* node : exec->order)
      FakeGpu::Of(stream)->queue.push_back(exec->work.at(node));
    return CUDA_SUCCESS;
  };
}

// Wraps the function so that its calls are counted, under the lock that all functions share.
template <auto Member>
struct LockedFunction;
template <class... Arguments, CUresult (*CudaDriver::*Member)(Arguments...)>
struct LockedFunction<Member> {
  static inline CUresult (*unlocked)(Arguments...) = nullptr;
  static inline std::string name;
  static CUresult Call(Arguments... arguments) {
    const std::lock_guard lock(FakeGpu::mutex);
    ++FakeGpu::current->calls[name];
    if (FakeGpu::current->Fails(name)) return CUDA_ERROR_OUT_OF_MEMORY;
    return unlocked(arguments...);
  }
  static void Wrap(CudaDriver& driver, const std::string& symbol) {
    name = symbol.substr(0, symbol.find("_v"));  // cuda.h renames cuMemAlloc to cuMemAlloc_v2
    unlocked = driver.*Member;
    driver.*Member = Call;
  }
};

inline CudaDriver FakeGpu::Driver() {
  CudaDriver driver;
  FillDeviceFunctions(driver);
  FillMemoryFunctions(driver);
  FillStreamFunctions(driver);
  FillHostFunctions(driver);
  FillGraphFunctions(driver);
  FillExecutableGraphFunctions(driver);
#define FUSEC_TEXT(name) #name
#define FUSEC_LOCK(name) \
  if (driver.name != nullptr) LockedFunction<&CudaDriver::name>::Wrap(driver, FUSEC_TEXT(name));
  FUSEC_CUDA_FUNCTIONS(FUSEC_LOCK)
#undef FUSEC_LOCK
#undef FUSEC_TEXT
  return driver;
}

}  // namespace fusec::runtime
