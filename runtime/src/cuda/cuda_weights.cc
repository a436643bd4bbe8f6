#include "runtime/src/cuda/cuda_weights.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <thread>

namespace fusec::runtime {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kChunkBytes = size_t{4} << 20;
constexpr size_t kMaxThreads =
    8;  // about what it takes to read the page cache as fast as PCIe 5 takes it

size_t RoundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The buffers that are constants, or those of them that are others than in `old` or `written`.
std::vector<size_t> Constants(const Artifact& artifact, const Artifact* old,
                              const std::set<int>& written) {
  std::vector<size_t> wanted;
  const std::vector<Buffer>& buffers = artifact.manifest().buffers;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].kind != BufferKind::kConstant) continue;
    const std::span<const std::byte> bytes = artifact.Constant(static_cast<int>(i));
    if (old != nullptr && written.count(static_cast<int>(i)) == 0) {
      const std::span<const std::byte> old_bytes = old->Constant(static_cast<int>(i));
      if (std::memcmp(bytes.data(), old_bytes.data(), bytes.size()) == 0) continue;
    }
    wanted.push_back(i);
  }
  return wanted;
}

struct Chunk {
  CUdeviceptr destination;
  std::span<const std::byte> source;
};

// One thread's share: fills two page-locked buffers in turn, each again only after its copy has
// left.
Status CopyChunks(const CudaContext& context, const std::vector<Chunk>& chunks,
                  std::atomic<size_t>& next, size_t chunk_bytes) {
  ScopedContext scope(context);
  FUSEC_RT_ASSIGN(const PinnedMemory staging,
                  AllocatePinned(context, 2 * chunk_bytes, "staging of the weights"));
  FUSEC_RT_ASSIGN(const CudaStream stream, CreateStream(context));
  CudaEvent copied[2];
  for (CudaEvent& event : copied) {
    FUSEC_RT_ASSIGN(event, CreateEvent(context, false));
  }
  int half = 0;
  for (size_t i = next++; i < chunks.size(); i = next++, half = 1 - half) {
    const Chunk& chunk = chunks[i];
    std::byte* buffer =
        static_cast<std::byte*>(staging.get()) + static_cast<size_t>(half) * chunk_bytes;
    // An event that was never recorded counts as reached.
    FUSEC_RT_TRY(FUSEC_CUDA(context, "the weights", cuEventSynchronize, copied[half].get()));
    std::memcpy(buffer, chunk.source.data(), chunk.source.size());
    FUSEC_RT_TRY(FUSEC_CUDA(context, "the weights", cuMemcpyHtoDAsync, chunk.destination, buffer,
                            chunk.source.size(), stream.get()));
    FUSEC_RT_TRY(
        FUSEC_CUDA(context, "the weights", cuEventRecord, copied[half].get(), stream.get()));
  }
  return FUSEC_CUDA(context, "the weights", cuStreamSynchronize, stream.get());
}

}  // namespace

StatusOr<CudaWeights> CudaWeights::Upload(const CudaContext& context, const Artifact& artifact,
                                          const Artifact* old, const std::set<int>& written) {
  const std::vector<size_t> constants = Constants(artifact, old, written);
  CudaWeights weights;
  weights.addresses_.assign(artifact.manifest().buffers.size(), 0);
  size_t total = 0;
  for (const size_t i : constants) {
    weights.addresses_[i] = total;
    // An empty tensor gets room too, so that its address lies inside the allocation.
    total += std::max(kAlignment, RoundUp(artifact.Constant(static_cast<int>(i)).size()));
  }
  FUSEC_RT_ASSIGN(weights.memory_, AllocateDevice(context, total, "the weights"));
  weights.bytes_ = total;
  std::vector<Chunk> chunks;
  size_t largest = 0;
  for (const size_t i : constants) {
    weights.addresses_[i] += weights.memory_.get();
    const std::span<const std::byte> bytes = artifact.Constant(static_cast<int>(i));
    for (size_t begin = 0; begin < bytes.size(); begin += kChunkBytes) {
      const size_t size = std::min(kChunkBytes, bytes.size() - begin);
      chunks.push_back({weights.addresses_[i] + begin, bytes.subspan(begin, size)});
      largest = std::max(largest, size);
    }
  }
  if (chunks.empty()) return weights;

  // A thread for every 32 MiB: below that, starting it and locking its pages costs more than it
  // gains.
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  const size_t count =
      std::clamp<size_t>(total / (8 * kChunkBytes), 1, std::min(cores, kMaxThreads));
  std::vector<Status> results(count);
  std::atomic<size_t> next = 0;
  const auto work = [&](size_t i) { results[i] = CopyChunks(context, chunks, next, largest); };
  {
    std::vector<std::jthread> threads;
    for (size_t i = 1; i < count; ++i) threads.emplace_back(work, i);
    work(0);
  }
  for (const Status& result : results) FUSEC_RT_TRY(result);
  return weights;
}

Status CudaWeights::EnqueueCopies(const CudaContext& context, const CudaWeights& changed,
                                  const Artifact& artifact, CUstream stream) const {
  for (size_t i = 0; i < addresses_.size(); ++i) {
    const size_t bytes = artifact.Constant(static_cast<int>(i)).size();
    if (changed.addresses_[i] == 0 || bytes == 0) continue;
    FUSEC_RT_TRY(FUSEC_CUDA(context, "new weights", cuMemcpyDtoDAsync, addresses_[i],
                            changed.addresses_[i], bytes, stream));
  }
  return {};
}

}  // namespace fusec::runtime
