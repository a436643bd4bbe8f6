#include "runtime/src/cuda/cuda_weights.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
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

// Appends what is to be copied to `destination`, in pieces that travel while others are read.
void AddChunks(CUdeviceptr destination, std::span<const std::byte> bytes,
               std::vector<Chunk>& chunks) {
  for (size_t begin = 0; begin < bytes.size(); begin += kChunkBytes) {
    const size_t size = std::min(kChunkBytes, bytes.size() - begin);
    chunks.push_back({destination + begin, bytes.subspan(begin, size)});
  }
}

// Returns when all is there.
Status CopyToDevice(const CudaContext& context, const std::vector<Chunk>& chunks) {
  if (chunks.empty()) return {};
  size_t total = 0, largest = 0;
  for (const Chunk& chunk : chunks) {
    total += chunk.source.size();
    largest = std::max(largest, chunk.source.size());
  }
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
  return {};
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
  for (const size_t i : constants) {
    weights.addresses_[i] += weights.memory_.get();
    AddChunks(weights.addresses_[i], artifact.Constant(static_cast<int>(i)), chunks);
  }
  FUSEC_RT_TRY(CopyToDevice(context, chunks));
  return weights;
}

StatusOr<UploadedBytes> UploadBytes(const CudaContext& context,
                                    std::span<const std::vector<std::byte>> contents) {
  UploadedBytes uploaded;
  size_t total = 0;
  for (const std::vector<std::byte>& bytes : contents) {
    uploaded.addresses.push_back(total);
    total += RoundUp(bytes.size());
  }
  FUSEC_RT_ASSIGN(uploaded.memory, AllocateDevice(context, total, "new weights"));
  std::vector<Chunk> chunks;
  for (size_t i = 0; i < contents.size(); ++i) {
    uploaded.addresses[i] += uploaded.memory.get();
    AddChunks(uploaded.addresses[i], contents[i], chunks);
  }
  FUSEC_RT_TRY(CopyToDevice(context, chunks));
  return uploaded;
}

Status CudaWeights::EnqueueCopies(const CudaContext& context, const CudaWeights& changed,
                                  const Artifact& artifact, std::span<const ConstantPart> kept,
                                  CUstream stream) const {
  std::map<int, std::map<size_t, size_t>> kept_of;  // by buffer: offset and bytes
  for (const ConstantPart& part : kept) kept_of[part.buffer][part.offset] = part.bytes;
  for (size_t i = 0; i < addresses_.size(); ++i) {
    const size_t bytes = artifact.Constant(static_cast<int>(i)).size();
    if (changed.addresses_[i] == 0) continue;
    const auto copy = [&](size_t begin, size_t end) -> Status {
      if (begin >= end) return {};
      return FUSEC_CUDA(context, "new weights", cuMemcpyDtoDAsync, addresses_[i] + begin,
                        changed.addresses_[i] + begin, end - begin, stream);
    };
    size_t begin = 0;
    for (const auto& [offset, size] : kept_of[static_cast<int>(i)]) {
      FUSEC_RT_TRY(copy(begin, offset));
      begin = offset + size;
    }
    FUSEC_RT_TRY(copy(begin, bytes));
  }
  return {};
}

}  // namespace fusec::runtime
