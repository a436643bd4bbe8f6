// CudaExecutor's host tensors on their way to the GPU and back.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ranges>

#include "runtime/src/cpu/parallel.h"
#include "runtime/src/cuda/cuda_executor.h"

namespace fusec::runtime {
namespace {

constexpr size_t kPieceBytes = size_t{512} << 10;  // 10 us at 50 GB/s
constexpr size_t kMostPieces = 64;                 // of a tensor

// Calls body(begin, bytes) for the pieces of a tensor in turn.
template <class Body>
Status ForEachPiece(size_t bytes, const Body& body) {
  const size_t piece = std::max(kPieceBytes, (bytes + kMostPieces - 1) / kMostPieces);
  for (size_t begin = 0; begin < bytes; begin += piece) {
    FUSEC_RT_TRY(body(begin, std::min(piece, bytes - begin)));
  }
  return {};
}

}  // namespace

void CudaExecutor::CopyOnHost(std::byte* to, const std::byte* from, size_t bytes, int threads) {
  constexpr size_t kBlockBytes = 4096;
  const auto blocks = static_cast<int64_t>((bytes + kBlockBytes - 1) / kBlockBytes);
  const auto copy = [=](int64_t first, int64_t last) {
    const size_t begin = static_cast<size_t>(first) * kBlockBytes;
    const size_t end = std::min(static_cast<size_t>(last) * kBlockBytes, bytes);
    std::memcpy(to + begin, from + begin, end - begin);
  };
  const bool alone = bytes < kMinThreadsBytes;
  ParallelFor(alone ? 1 : UsefulThreads(static_cast<double>(bytes), 0, threads), blocks, copy);
}

// Whoever calls may change pageable memory when this returns.
Status CudaExecutor::SendInputs(const RunBindings& bindings, const Staging& staging,
                                CUstream stream) {
  // Last to first: what the GPU copies by itself begins before the host's part.
  for (const StagedTensor& input : std::views::reverse(staging.inputs)) {
    const void* data = bindings.inputs[input.tensor].data;
    if (input.place == Place::kStaged) {
      std::memcpy(StagingAt(input.offset), data, input.bytes);
    } else if (input.place == Place::kPieces) {
      FUSEC_RT_TRY(SendPieces(input, data, stream));
    } else if (input.place == Place::kPinned) {
      FUSEC_RT_TRY(FUSEC_CUDA(context_, "the inputs", cuMemcpyHtoDAsync,
                              staging_device_.get() + input.offset, data, input.bytes, stream));
    }
  }
  return {};
}

Status CudaExecutor::SendPieces(const StagedTensor& input, const void* data, CUstream stream) {
  const ThreadShare share(device_.copy_threads());
  return ForEachPiece(input.bytes, [&](size_t begin, size_t bytes) {
    std::byte* staged = StagingAt(input.offset + begin);
    CopyOnHost(staged, static_cast<const std::byte*>(data) + begin, bytes, share.threads());
    return FUSEC_CUDA(context_, "the inputs", cuMemcpyHtoDAsync,
                      staging_device_.get() + input.offset + begin, staged, bytes, stream);
  });
}

Status CudaExecutor::FetchOutputs(const RunBindings& bindings, const Staging& staging,
                                  CUstream stream) {
  size_t pieces = 0;
  for (const StagedTensor& output : staging.outputs) {
    void* user = bindings.outputs[output.tensor].data;
    if (output.place == Place::kPinned) {
      FUSEC_RT_TRY(FUSEC_CUDA(context_, "the outputs", cuMemcpyDtoHAsync, user,
                              staging_device_.get() + output.offset, output.bytes, stream));
      continue;
    }
    running_outputs_.push_back({output, user, pieces});
    if (output.place != Place::kPieces) continue;
    FUSEC_RT_TRY(ForEachPiece(output.bytes, [&](size_t begin, size_t bytes) -> Status {
      const size_t offset = output.offset + begin;
      FUSEC_RT_TRY(FUSEC_CUDA(context_, "the outputs", cuMemcpyDtoHAsync, StagingAt(offset),
                              staging_device_.get() + offset, bytes, stream));
      if (pieces == pieces_done_.size()) {
        FUSEC_RT_ASSIGN(CudaEvent event, CreateEvent(context_, false));
        pieces_done_.push_back(std::move(event));
      }
      return FUSEC_CUDA(context_, "the outputs", cuEventRecord, pieces_done_[pieces++].get(),
                        stream);
    }));
  }
  return {};
}

// Waits for the run, and copies what it left in staging.
Status CudaExecutor::Wait() {
  for (const RunningOutput& output : running_outputs_) {
    if (output.staged.place == Place::kPieces) FUSEC_RT_TRY(TakePieces(output));
  }
  if (!running_signals_end_ || !SeesEnd()) {
    FUSEC_RT_TRY(running_stream_ == stream_.get()
                     ? FUSEC_CUDA(context_, "the program", cuStreamSynchronize, stream_.get())
                     : FUSEC_CUDA(context_, "the program", cuEventSynchronize, done_.get()));
  }
  for (const auto& [staged, user, first_piece] : running_outputs_) {
    if (staged.place != Place::kPieces) std::memcpy(user, StagingAt(staged.offset), staged.bytes);
  }
  return {};
}

// Whether the word of end_run has come. What takes long is left to the driver, which may put the
// thread to sleep, and so is what never ends since the GPU met an error.
bool CudaExecutor::SeesEnd() const {
  constexpr std::chrono::milliseconds kLongest(1);
  const std::atomic_ref<uint32_t> has_ended(reports().has_ended);
  const auto give_up = std::chrono::steady_clock::now() + kLongest;
  do {
    if (has_ended.load(std::memory_order_acquire) != 0) return true;
  } while (std::chrono::steady_clock::now() < give_up);
  return false;
}

Status CudaExecutor::TakePieces(const RunningOutput& output) {
  const ThreadShare share(device_.copy_threads());
  size_t piece = output.first_piece;
  return ForEachPiece(output.staged.bytes, [&](size_t begin, size_t bytes) -> Status {
    FUSEC_RT_TRY(
        FUSEC_CUDA(context_, "the program", cuEventSynchronize, pieces_done_[piece++].get()));
    CopyOnHost(static_cast<std::byte*>(output.user) + begin,
               StagingAt(output.staged.offset + begin), bytes, share.threads());
    return {};
  });
}

}  // namespace fusec::runtime
