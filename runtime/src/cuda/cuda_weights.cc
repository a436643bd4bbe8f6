#include "runtime/src/cuda/cuda_weights.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "runtime/src/cuda/copy_threads.h"

namespace fusec::runtime {
namespace {

constexpr size_t kAlignment = 256;

// The room of a tensor; an empty tensor gets some too, so that its address is inside the
// allocation.
size_t RoomFor(size_t bytes) {
  return std::max<size_t>(1, (bytes + kAlignment - 1) / kAlignment) * kAlignment;
}

bool IsSame(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::memcmp(a.data(), b.data(), a.size()) == 0;
}

struct Chunk {
  CUdeviceptr destination;
  std::span<const std::byte> source;
};

// The work of one thread: it fills two page-locked buffers in turn, and reuses a buffer only after
// its copy has finished.
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
    // An event that was never recorded counts as complete.
    FUSEC_RT_TRY(FUSEC_CUDA(context, "the weights", cuEventSynchronize, copied[half].get()));
    std::memcpy(buffer, chunk.source.data(), chunk.source.size());
    FUSEC_RT_TRY(FUSEC_CUDA(context, "the weights", cuMemcpyHtoDAsync, chunk.destination, buffer,
                            chunk.source.size(), stream.get()));
    FUSEC_RT_TRY(
        FUSEC_CUDA(context, "the weights", cuEventRecord, copied[half].get(), stream.get()));
  }
  return FUSEC_CUDA(context, "the weights", cuStreamSynchronize, stream.get());
}

// How weights are copied: as fast as possible (kAlone), or while runs of a program continue
// (kBesideRuns), whose inputs have to wait for the copies in flight. There are two such copies per
// thread, in total at most 64 MiB or 1 MiB.
struct Travel {
  size_t piece_bytes, most_threads;
};
constexpr Travel kAlone = {kCopyPieceBytes, SIZE_MAX}, kBesideRuns = {size_t{256} << 10, 2};

// Appends the copy of `bytes` to `destination` to the chunks, in pieces, so that one is sent while
// another is read.
void AddChunks(CUdeviceptr destination, std::span<const std::byte> bytes, size_t piece_bytes,
               std::vector<Chunk>& chunks) {
  for (size_t begin = 0; begin < bytes.size(); begin += piece_bytes) {
    const size_t size = std::min(piece_bytes, bytes.size() - begin);
    chunks.push_back({destination + begin, bytes.subspan(begin, size)});
  }
}

// Copies all chunks; returns when they are complete.
Status CopyToDevice(const CudaContext& context, const std::vector<Chunk>& chunks,
                    size_t most_threads) {
  if (chunks.empty()) return {};
  size_t total = 0, largest = 0;
  for (const Chunk& chunk : chunks) {
    total += chunk.source.size();
    largest = std::max(largest, chunk.source.size());
  }
  const size_t count = std::min(CopyThreadsFor(total), most_threads);
  std::vector<Status> results(count);
  std::atomic<size_t> next = 0;
  InCopyThreads(count, [&](size_t i) { results[i] = CopyChunks(context, chunks, next, largest); });
  for (const Status& result : results) FUSEC_RT_TRY(result);
  return {};
}

using Spans = std::vector<std::span<const std::byte>>;

StatusOr<UploadedBytes> UploadSpans(const CudaContext& context, const Spans& contents,
                                    const Travel& travel, std::string_view purpose) {
  UploadedBytes uploaded;
  for (const std::span<const std::byte> bytes : contents) {
    uploaded.addresses.push_back(uploaded.bytes);
    uploaded.bytes += RoomFor(bytes.size());
  }
  FUSEC_RT_ASSIGN(uploaded.memory, AllocateDevice(context, uploaded.bytes, purpose));
  std::vector<Chunk> chunks;
  for (size_t i = 0; i < contents.size(); ++i) {
    uploaded.addresses[i] += uploaded.memory.get();
    AddChunks(uploaded.addresses[i], contents[i], travel.piece_bytes, chunks);
  }
  FUSEC_RT_TRY(CopyToDevice(context, chunks, travel.most_threads));
  return uploaded;
}

}  // namespace

StatusOr<CudaWeights> CudaWeights::Upload(const CudaContext& context, const Artifact& artifact) {
  const std::vector<Buffer>& buffers = artifact.manifest().buffers;
  CudaWeights weights;
  weights.addresses_.assign(buffers.size(), 0);
  std::vector<size_t> on_device;
  Spans contents;
  std::vector<HostCopy> host_copies;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].kind != BufferKind::kConstant) continue;
    const auto number = static_cast<int>(i);
    const std::span<const std::byte> bytes = artifact.Constant(number);
    if (!buffers[i].on_host) {
      on_device.push_back(i);
      contents.push_back(bytes);
      continue;
    }
    FUSEC_RT_ASSIGN(HostConstant constant,
                    HostConstant::Allocate(context, bytes.size(), buffers[i].name));
    weights.addresses_[i] = constant.address();
    host_copies.push_back({constant.bytes().data(), bytes});
    weights.on_host_.emplace(number, std::move(constant));
  }
  FUSEC_RT_ASSIGN(UploadedBytes uploaded, UploadSpans(context, contents, kAlone, "the weights"));
  for (size_t i = 0; i < on_device.size(); ++i)
    weights.addresses_[on_device[i]] = uploaded.addresses[i];
  weights.memory_ = std::move(uploaded.memory);
  weights.bytes_ = uploaded.bytes;
  CopyOnHost(host_copies);
  return weights;
}

StatusOr<ChangedWeights> CudaWeights::UploadChanged(const CudaContext& context,
                                                    const Artifact& artifact, const Artifact& old,
                                                    const std::set<int>& written) {
  FUSEC_RT_TRY(old.CheckWeights());
  const std::vector<Buffer>& buffers = old.manifest().buffers;  // says which are on the host
  ChangedWeights changed;
  std::vector<int> on_device;
  Spans contents;
  for (int i = 0; i < static_cast<int>(buffers.size()); ++i) {
    const Buffer& buffer = buffers[static_cast<size_t>(i)];
    if (buffer.kind != BufferKind::kConstant) continue;
    const std::span<const std::byte> bytes = artifact.Constant(i);
    if (written.count(i) == 0 && IsSame(bytes, old.Constant(i))) continue;
    if (buffer.on_host) {
      changed.on_host.push_back(i);
      continue;
    }
    on_device.push_back(i);
    contents.push_back(bytes);
  }
  FUSEC_RT_ASSIGN(UploadedBytes uploaded,
                  UploadSpans(context, contents, kBesideRuns, "new weights"));
  for (size_t i = 0; i < on_device.size(); ++i)
    changed.addresses[on_device[i]] = uploaded.addresses[i];
  changed.memory = std::move(uploaded.memory);
  return changed;
}

StatusOr<UploadedBytes> UploadBytes(const CudaContext& context,
                                    std::span<const std::vector<std::byte>> contents) {
  return UploadSpans(context, Spans(contents.begin(), contents.end()), kBesideRuns, "new weights");
}

namespace {

// Calls copy(begin, end) for all ranges of a constant's bytes that are outside the kept parts.
template <class Copy>
Status ForEachReplaced(int buffer, size_t bytes, std::span<const ConstantPart> kept,
                       const Copy& copy) {
  std::map<size_t, size_t> kept_bytes;  // by offset
  for (const ConstantPart& part : kept) {
    if (part.buffer == buffer) kept_bytes[part.offset] = part.bytes;
  }
  size_t begin = 0;
  for (const auto& [offset, size] : kept_bytes) {
    if (begin < offset) FUSEC_RT_TRY(copy(begin, offset));
    begin = offset + size;
  }
  return begin < bytes ? copy(begin, bytes) : Status();
}

}  // namespace

Status CudaWeights::EnqueueCopies(const CudaContext& context, ChangedWeights& changed,
                                  const Artifact& artifact, std::span<const ConstantPart> kept,
                                  CUstream stream) const {
  for (const auto& [buffer, address] : changed.addresses) {
    const auto copy = [&, from = address, to = Address(buffer)](size_t begin, size_t end) {
      return FUSEC_CUDA(context, "new weights", cuMemcpyDtoDAsync, to + begin, from + begin,
                        end - begin, stream);
    };
    FUSEC_RT_TRY(ForEachReplaced(buffer, artifact.Constant(buffer).size(), kept, copy));
  }
  for (const int buffer : changed.on_host) {
    const std::span<const std::byte> bytes = artifact.Constant(buffer);
    std::byte* const to = on_host_.at(buffer).bytes().data();
    const auto copy = [&](size_t begin, size_t end) -> Status {
      changed.host_copies.push_back({to + begin, bytes.subspan(begin, end - begin)});
      return {};
    };
    FUSEC_RT_TRY(ForEachReplaced(buffer, bytes.size(), kept, copy));
  }
  return EnqueueCopyOnHost(context, changed.host_copies, stream);
}

Status CudaWeights::EnqueueCopy(const CudaContext& context, const ConstantPart& part,
                                CUdeviceptr from, CUstream stream) const {
  if (part.bytes == 0) return {};
  const auto on_host = on_host_.find(part.buffer);
  if (on_host == on_host_.end())
    return FUSEC_CUDA(context, "new weights", cuMemcpyDtoDAsync, Address(part.buffer) + part.offset,
                      from, part.bytes, stream);
  return FUSEC_CUDA(context, "new weights", cuMemcpyDtoHAsync,
                    on_host->second.bytes().data() + part.offset, from, part.bytes, stream);
}

}  // namespace fusec::runtime
