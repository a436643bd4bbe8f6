#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/src/cuda/cuda_driver.h"

namespace fusec::runtime {

// A fake CUDA driver that consists of host memory and functions, so that the executor's bookkeeping is tested without a GPU. Work stays in
// its stream until something waits for it, which is as late as a GPU might execute it. Any number of threads may call it; a lock lets one
// in at a time. There is no cuBLASLt.
struct FakeGpu {
  struct Kernel {
    std::function<void(void** arguments, unsigned blocks, unsigned block_size)> run;
    std::vector<size_t> argument_bytes;
    int cluster_blocks = 0;  // the cluster size with which it must be launched
  };
  using Work = std::function<void()>;
  struct Node {
    Work work;
    const Kernel* kernel = nullptr;
    bool is_linked = false;  // has an edge from the node before it, as all except the first must have
  };
  struct Graph {
    std::vector<Node*> nodes;
    // The work of the whole graph, as a child graph's node does it.
    Work All() const {
      std::vector<Work> all;
      for (const Node* node : nodes) all.push_back(node->work);
      return [all] {
        for (const Work& work : all) work();
      };
    }
    ~Graph() {
      for (Node* node : nodes) delete node;
    }
  };
  using Executable = std::map<Node*, Work>;  // unordered: the check below ensures that graphs are chains
  struct Exec {
    std::vector<Node*> order;
    Executable work;
  };
  struct Stream {
    std::deque<Work> queue;
  };
  struct Event {
    Stream* stream = nullptr;
    std::shared_ptr<bool> reached;  // whether the place where it was recorded last has been reached
  };

  std::map<std::string, Kernel> kernels;
  std::vector<std::string> modules;  // the first 4 bytes of each image loaded: "\177ELF", or PTX
  std::map<CUdeviceptr, size_t> allocations;
  size_t free_bytes = size_t{1} << 30;
  std::map<const void*, size_t> pinned;  // page-locked host memory
  size_t pinned_bytes = 0, most_pinned_bytes = 0;
  std::map<const void*, int> generations;  // how often memory at that address was freed
  bool reuses_addresses = false;  // memory of up to 8 MiB is allocated where memory was freed last
  int capability = 90;
  int built = 0;   // graphs built
  int copies = 0;  // copies done by graphs
  int programmatic_edges = 0;
  int instantiated = 0, patched = 0, launched = 0,
      live = 0;                       // `live` counts handles and memory that were not freed yet
  CUresult next_wait = CUDA_SUCCESS;  // the error with which the next wait fails
  Stream null_stream;
  std::map<std::string, int> calls;  // number of calls of each driver function
  int fails_one_in = 0;  // one in so many calls that allocate memory or enqueue work fails for lack of memory
  std::minstd_rand chance;

  static FakeGpu* current;
  static inline std::mutex mutex;

  // Executes a stream's work; with `reached`, only up to the place where that event was recorded.
  void Drain(Stream* stream, const bool* reached = nullptr) {
    while ((reached == nullptr || !*reached) && !stream->queue.empty()) {
      const Work work = std::move(stream->queue.front());
      stream->queue.pop_front();
      work();
    }
  }
  CUresult Waited() { return std::exchange(next_wait, CUDA_SUCCESS); }
  static Stream* Of(CUstream stream) {
    return stream == nullptr ? &current->null_stream : reinterpret_cast<Stream*>(stream);
  }
  // A launch. Its arguments are copied immediately, as the driver does.
  static Work LaunchOf(const Kernel* kernel, unsigned blocks, unsigned block_size,
                       void** arguments) {
    std::vector<std::vector<char>> values;
    for (size_t i = 0; i < kernel->argument_bytes.size(); ++i) {
      const char* bytes = static_cast<const char*>(arguments[i]);
      values.emplace_back(bytes, bytes + kernel->argument_bytes[i]);
    }
    return [kernel, blocks, block_size, values]() mutable {
      std::vector<void*> pointers;
      for (std::vector<char>& value : values) pointers.push_back(value.data());
      kernel->run(pointers.data(), blocks, block_size);
    };
  }
  static Work CopyOf(void* to, const void* from, size_t bytes) {
    return [=] { std::memcpy(to, from, bytes); };
  }
  // A copy by a graph node. As with driver 580.159, it fails if its memory was freed after the node was made.
  static Work CopyOf(const CUDA_MEMCPY3D& p) {
    void* to = reinterpret_cast<void*>(p.dstDevice);
    const void* from = p.srcMemoryType == CU_MEMORYTYPE_DEVICE
                           ? reinterpret_cast<const void*>(p.srcDevice)
                           : p.srcHost;
    const auto generations = [to, from] {
      return std::pair(current->generations[to], current->generations[from]);
    };
    const auto of_node = generations();
    return [=, copy = CopyOf(to, from, p.WidthInBytes)] {
      if (generations() != of_node) current->next_wait = CUDA_ERROR_INVALID_VALUE;
      ++current->copies;
      copy();
    };
  }

  void* Allocate(size_t bytes) {
    if (!reuses_addresses) return std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (bytes > kReusedBytes) return nullptr;
    if (freed_.empty()) {
      reused_.emplace_back(std::aligned_alloc(256, kReusedBytes), std::free);
      freed_.push_back(reused_.back().get());
    }
    void* memory = freed_.back();
    freed_.pop_back();
    return memory;
  }
  void Free(void* memory) {
    ++generations[memory];
    if (!reuses_addresses) return std::free(memory);
    freed_.push_back(memory);
  }

  bool Fails(const std::string& function) {
    constexpr std::string_view kCanFail =
        " cuMemAlloc cuMemHostAlloc cuStreamCreate cuEventCreate cuGraphCreate "
        "cuGraphAddKernelNode cuGraphAddMemcpyNode cuGraphAddDependencies cuGraphInstantiate "
        "cuGraphExecKernelNodeSetParams cuGraphExecMemcpyNodeSetParams cuGraphLaunch "
        "cuLaunchKernel cuLaunchHostFunc cuMemHostRegister cuMemcpyHtoDAsync cuMemcpyDtoHAsync "
        "cuEventRecord cuStreamWaitEvent ";
    return fails_one_in > 0 && chance() % fails_one_in == 0 &&
           kCanFail.find(" " + function + " ") != std::string_view::npos;
  }

  CudaDriver Driver();

  // Of codegen_templates/runtime.
  FakeGpu() {
    kernels["copy_inputs"] = {[](void** a, unsigned blocks, unsigned) {
                                struct Segment {
                                  char* to;
                                  const char* from;
                                  uint64_t words;
                                };
                                const auto* segments = static_cast<const Segment*>(a[0]);
                                const unsigned count = blocks / *static_cast<unsigned*>(a[1]);
                                for (unsigned i = 0; i < count; ++i) {
                                  const auto& [to, from, words] = segments[i];
                                  std::memcpy(to, from, 16 * words);
                                }
                                ++current->copies;
                              },
                              {8 * sizeof(uint64_t[3]), 4}};
    kernels["end_run"] = {[](void** a, unsigned, unsigned) { **static_cast<unsigned**>(a[0]) = 1; },
                          {8}};
  }

 private:
  static constexpr size_t kReusedBytes = size_t{8} << 20;
  std::vector<std::unique_ptr<void, decltype(&std::free)>> reused_;
  std::vector<void*> freed_;  // the freed parts of `reused_`; the most recent one is last
};

inline FakeGpu* FakeGpu::current = nullptr;

}  // namespace fusec::runtime
