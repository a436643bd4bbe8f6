// Shows what a kernel node of a CUDA graph launches after cuGraphExecKernelNodeSetParams has given
// it a function with another cluster size. This is why OperationGraph does not reuse a node for
// kernels of another cluster size.
//
//   nvcc -arch=sm_90a -cubin -o graph_clusters.cubin tests/gpu/graph_clusters.cu
//   nvcc -arch=sm_90a -o graph_clusters tests/gpu/graph_clusters.cu -lcuda
//   ./graph_clusters graph_clusters.cubin
//
// Each node is created for kMadeFor blocks and launched, then given another function and grid and
// launched again, then given the first function and grid again. Prints how many blocks ran and the
// size of their clusters, or -1 if no block ran.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#define COUNTING_KERNEL(name, attribute)                   \
  extern "C" __global__ void attribute name(int* found) {  \
    int blocks;                                            \
    asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(blocks)); \
    if (threadIdx.x != 0) return;                          \
    atomicAdd(found, 1);                                   \
    found[1] = blocks;                                     \
  }
COUNTING_KERNEL(plain, )
COUNTING_KERNEL(c1, __cluster_dims__(1))
COUNTING_KERNEL(c2, __cluster_dims__(2))
COUNTING_KERNEL(c4, __cluster_dims__(4))
COUNTING_KERNEL(c8, __cluster_dims__(8))

constexpr int kMadeFor = 8, kUneven = 3;

void Check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  cuGetErrorName(result, &name);
  std::fprintf(stderr, "%s: %s\n", call, name);
  std::exit(1);
}
#define CHECK(call) Check(call, #call)

CUdeviceptr found_address;

CUDA_KERNEL_NODE_PARAMS Parameters(CUfunction function, int blocks) {
  static void* arguments[] = {&found_address};
  CUDA_KERNEL_NODE_PARAMS parameters = {};
  parameters.func = function;
  parameters.gridDimX = blocks;
  parameters.gridDimY = parameters.gridDimZ = 1;
  parameters.blockDimX = 32;
  parameters.blockDimY = parameters.blockDimZ = 1;
  parameters.kernelParams = arguments;
  return parameters;
}

void Launch(CUgraphExec executable, CUstream stream, const char* when) {
  int found[] = {0, -1};
  CHECK(cuMemcpyHtoD(found_address, found, sizeof found));
  CHECK(cuGraphLaunch(executable, stream));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuMemcpyDtoH(found, found_address, sizeof found));
  std::printf("  %s: %d ran, clusters of %d", when, found[0], found[1]);
}

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: graph_clusters FILE.cubin\n");
    return 2;
  }
  CHECK(cuInit(0));
  CUdevice device;
  CHECK(cuDeviceGet(&device, 0));
  CUcontext context;
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxPushCurrent(context));
  CUmodule module;
  CHECK(cuModuleLoad(&module, arguments[1]));
  CHECK(cuMemAlloc(&found_address, 2 * sizeof(int)));
  CUstream stream;
  CHECK(cuStreamCreate(&stream, 0));

  constexpr struct {
    const char* name;
    int cluster;
  } kFunctions[] = {{"plain", 0}, {"c1", 1}, {"c2", 2}, {"c4", 4}, {"c8", 8}};
  for (const auto& made : kFunctions) {
    for (const auto& given : kFunctions) {
      for (const int blocks : {kMadeFor, kUneven}) {
        if (given.cluster > 1 && blocks % given.cluster != 0) continue;
        CUfunction first, second;
        CHECK(cuModuleGetFunction(&first, module, made.name));
        CHECK(cuModuleGetFunction(&second, module, given.name));
        CUgraph graph;
        CHECK(cuGraphCreate(&graph, 0));
        CUgraphNode node;
        const CUDA_KERNEL_NODE_PARAMS before = Parameters(first, kMadeFor);
        CHECK(cuGraphAddKernelNode(&node, graph, nullptr, 0, &before));
        CUgraphExec executable;
        CHECK(cuGraphInstantiate(&executable, graph, 0));
        std::printf("%-5s -> %-5s %d blocks", made.name, given.name, blocks);
        Launch(executable, stream, "before");
        const CUDA_KERNEL_NODE_PARAMS after = Parameters(second, blocks);
        CHECK(cuGraphExecKernelNodeSetParams(executable, node, &after));
        Launch(executable, stream, "then");
        CHECK(cuGraphExecKernelNodeSetParams(executable, node, &before));
        Launch(executable, stream, "back");
        std::printf("\n");
        CHECK(cuGraphExecDestroy(executable));
        CHECK(cuGraphDestroy(graph));
      }
    }
  }
  return 0;
}
