#include "runtime/src/cuda/staging.h"

#include <algorithm>
#include <cstring>
#include <ranges>

#include "runtime/src/parallel.h"

namespace fusec::runtime {
namespace {

constexpr size_t kPieceBytes = size_t{512} << 10;  // 10 us at 50 GB/s
constexpr size_t kMostPieces = 64;                 // pieces of one tensor

// Calls body(begin, bytes) for the pieces of a tensor in turn.
template <class Body>
Status ForEachPiece(size_t bytes, const Body& body) {
  const size_t piece = std::max(kPieceBytes, (bytes + kMostPieces - 1) / kMostPieces);
  for (size_t begin = 0; begin < bytes; begin += piece) {
    FUSEC_RT_TRY(body(begin, std::min(piece, bytes - begin)));
  }
  return {};
}

void CopyOnHost(std::byte* to, const std::byte* from, size_t bytes, int threads) {
  constexpr size_t kBlockBytes = 4096;
  const auto blocks = static_cast<int64_t>((bytes + kBlockBytes - 1) / kBlockBytes);
  const auto copy = [=](int64_t first, int64_t last) {
    const size_t begin = static_cast<size_t>(first) * kBlockBytes;
    const size_t end = std::min(static_cast<size_t>(last) * kBlockBytes, bytes);
    std::memcpy(to + begin, from + begin, end - begin);
  };
  const bool alone = bytes < TensorPlaces::kMinThreadsBytes;
  ParallelFor(alone ? 1 : UsefulThreads(static_cast<double>(bytes), 0, threads), blocks, copy);
}

}  // namespace

Status Staging::Grow(const StagingLayout& layout) {
  const CudaContext& context = device_.context();
  FUSEC_RT_TRY(on_device_.Grow(layout.device_bytes, [&](size_t bytes) {
    return AllocateDevice(context, bytes, "copies of inputs and outputs");
  }));
  FUSEC_RT_TRY(host_.Grow(layout.host_bytes, [&](size_t bytes) {
    return AllocatePinned(context, bytes, "staging of inputs and outputs");
  }));
  if (host_.bytes() == 0) return {};
  return FUSEC_CUDA(context, "staging of inputs and outputs", cuMemHostGetDevicePointer,
                    &host_address_, host_.get(), 0);
}

void Staging::AppendCopyOfInputs(const RunBindings& bindings, const StagingLayout& layout,
                                 std::vector<Operation>& operations) const {
  std::vector<CudaInputCopy::Segment> segments;
  // Rounding up to words is safe, because the room of a tensor in staging is a multiple of a word.
  const auto add = [&](size_t offset, CUdeviceptr from, size_t bytes) {
    constexpr size_t kWordBytes = CudaInputCopy::kWordBytes;
    segments.push_back({on_device_.get() + offset, from, (bytes + kWordBytes - 1) / kWordBytes});
  };
  if (const size_t bytes = layout.graph_bytes; bytes > 0) {
    if (!device_.input_copy() || bytes > TensorPlaces::kMaxCopyKernelBytes) {
      operations.emplace_back(
          CopyOperation{on_device_.get(), reinterpret_cast<CUdeviceptr>(host_.get()), bytes});
      return;  // no input has the place kPinnedRead
    }
    add(0, host_address_, bytes);
  }
  for (const StagedTensor& input : layout.inputs) {
    if (input.place != TensorPlace::kPinnedRead) continue;
    const void* data = bindings.inputs[input.tensor].data;
    add(input.offset, reinterpret_cast<CUdeviceptr>(data), input.bytes);
  }
  if (segments.empty()) return;
  KernelOperation kernel = device_.input_copy().CopyOf(segments);
  kernel.dependent_launch = device_.launches_dependently();
  operations.emplace_back(std::move(kernel));
}

Status Staging::SendInputs(const RunBindings& bindings, const StagingLayout& layout,
                           CUstream stream) {
  // From the last to the first: so copies that the GPU does alone begin before those of the host.
  for (const StagedTensor& input : std::views::reverse(layout.inputs)) {
    const void* data = bindings.inputs[input.tensor].data;
    if (input.place == TensorPlace::kStaged) {
      std::memcpy(HostAt(input.offset), data, input.bytes);
    } else if (input.place == TensorPlace::kPieces) {
      FUSEC_RT_TRY(SendPieces(input, data, stream));
    } else if (input.place == TensorPlace::kPinned) {
      FUSEC_RT_TRY(FUSEC_CUDA(device_.context(), "the inputs", cuMemcpyHtoDAsync,
                              on_device_.get() + input.offset, data, input.bytes, stream));
    }
  }
  return {};
}

Status Staging::SendPieces(const StagedTensor& input, const void* data, CUstream stream) {
  const ThreadShare share(device_.copy_threads());
  return ForEachPiece(input.bytes, [&](size_t begin, size_t bytes) {
    std::byte* staged = HostAt(input.offset + begin);
    CopyOnHost(staged, static_cast<const std::byte*>(data) + begin, bytes, share.threads());
    return FUSEC_CUDA(device_.context(), "the inputs", cuMemcpyHtoDAsync,
                      on_device_.get() + input.offset + begin, staged, bytes, stream);
  });
}

Status Staging::FetchOutputs(const RunBindings& bindings, const StagingLayout& layout,
                             CUstream stream) {
  size_t pieces = 0;
  for (const StagedTensor& output : layout.outputs) {
    void* user = bindings.outputs[output.tensor].data;
    if (output.place == TensorPlace::kPinned) {
      FUSEC_RT_TRY(FUSEC_CUDA(device_.context(), "the outputs", cuMemcpyDtoHAsync, user,
                              on_device_.get() + output.offset, output.bytes, stream));
      continue;
    }
    outputs_.push_back({output, user, pieces});
    if (output.place == TensorPlace::kPieces) FUSEC_RT_TRY(FetchPieces(output, pieces, stream));
  }
  return {};
}

// Enqueues the copies of an output in pieces. `pieces` counts the pieces of the run.
Status Staging::FetchPieces(const StagedTensor& output, size_t& pieces, CUstream stream) {
  const CudaContext& context = device_.context();
  return ForEachPiece(output.bytes, [&](size_t begin, size_t bytes) -> Status {
    const size_t offset = output.offset + begin;
    FUSEC_RT_TRY(FUSEC_CUDA(context, "the outputs", cuMemcpyDtoHAsync, HostAt(offset),
                            on_device_.get() + offset, bytes, stream));
    if (pieces == pieces_done_.size()) {
      FUSEC_RT_ASSIGN(CudaEvent event, CreateEvent(context, false));
      pieces_done_.push_back(std::move(event));
    }
    return FUSEC_CUDA(context, "the outputs", cuEventRecord, pieces_done_[pieces++].get(), stream);
  });
}

Status Staging::TakePieces() {
  for (const WaitingOutput& output : outputs_) {
    if (output.staged.place == TensorPlace::kPieces) FUSEC_RT_TRY(TakePiecesOf(output));
  }
  return {};
}

Status Staging::TakePiecesOf(const WaitingOutput& output) {
  const ThreadShare share(device_.copy_threads());
  size_t piece = output.first_piece;
  return ForEachPiece(output.staged.bytes, [&](size_t begin, size_t bytes) -> Status {
    FUSEC_RT_TRY(FUSEC_CUDA(device_.context(), "the program", cuEventSynchronize,
                            pieces_done_[piece++].get()));
    CopyOnHost(static_cast<std::byte*>(output.user) + begin, HostAt(output.staged.offset + begin),
               bytes, share.threads());
    return {};
  });
}

void Staging::TakeWhole() {
  for (const auto& [staged, user, first_piece] : outputs_) {
    if (staged.place != TensorPlace::kPieces)
      std::memcpy(user, HostAt(staged.offset), staged.bytes);
  }
}

}  // namespace fusec::runtime
