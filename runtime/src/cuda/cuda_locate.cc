// CudaExecutor's memory: where the buffers of a run lie.
#include <algorithm>

#include "runtime/src/cuda/cuda_executor.h"

namespace fusec::runtime {
namespace {

constexpr size_t kAlignment = 256;
// Steps of memory, so that small models need no more of it for larger dims.
constexpr size_t kArenaStep = size_t{1} << 20, kStagingStep = size_t{1} << 16;

size_t RoundUp(size_t bytes, size_t step = kAlignment) { return (bytes + step - 1) / step * step; }

constexpr uintptr_t kVectorBytes = 16;  // that generated kernels read and write at a time

Status CheckAligned(const TensorBinding& binding, const TensorSignature& tensor) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(binding.data);
  if (!binding.on_device || address % kVectorBytes == 0) return {};
  return Fail(FUSEC_BAD_INPUT, "the device memory of \"", tensor.name, "\" starts ",
              address % kVectorBytes, " bytes after a multiple of ", kVectorBytes,
              ", expected a multiple of ", kVectorBytes);
}

}  // namespace

CudaExecutor::Place CudaExecutor::PlaceOfInput(const TensorBinding& binding) const {
  if (binding.on_device) return Place::kDevice;
  const bool is_aligned = reinterpret_cast<uintptr_t>(binding.data) % kVectorBytes == 0;
  if (device_.input_copy() && is_aligned && binding.bytes >= kMinPinnedReadBytes &&
      binding.bytes <= kMaxCopyKernelBytes && device_.OwnsHost(binding.data, binding.bytes))
    return Place::kPinnedRead;
  if (binding.bytes >= kMinPinnedInputBytes && device_.IsPageLocked(binding.data, binding.bytes))
    return Place::kPinned;
  return binding.bytes >= kMinThreadsBytes ? Place::kPieces : Place::kStaged;
}

CudaExecutor::Place CudaExecutor::PlaceOfOutput(size_t output, const TensorBinding& binding) const {
  if (binding.on_device) return Place::kDevice;
  if (only_stored_to_[output] && binding.bytes <= kMaxMappedBytes) {
    const bool is_aligned = reinterpret_cast<uintptr_t>(binding.data) % kVectorBytes == 0;
    return is_aligned && device_.OwnsHost(binding.data, binding.bytes) ? Place::kPinnedMapped
                                                                       : Place::kStagedMapped;
  }
  return device_.IsPageLocked(binding.data, binding.bytes) ? Place::kPinned : Place::kPieces;
}

void CudaExecutor::ChooseInputPlaces(const RunBindings& bindings) {
  input_places_.clear();
  size_t bytes = 0;  // that the kernel would copy
  for (const TensorBinding& input : bindings.inputs) {
    const Place place = PlaceOfInput(input);
    input_places_.push_back(place);
    if (place == Place::kPinnedRead || place == Place::kStaged) bytes += RoundUp(input.bytes);
  }
  if (bytes <= kMaxCopyKernelBytes) return;
  for (size_t i = 0; i < input_places_.size(); ++i) {
    if (input_places_[i] != Place::kPinnedRead) continue;
    input_places_[i] =
        bindings.inputs[i].bytes >= kMinPinnedInputBytes ? Place::kPinned : Place::kStaged;
  }
}

// All that the operations depend on; the memory that the executor owns only changes when it says
// so of what it prepared.
void CudaExecutor::MakeKey(const RunBindings& bindings, bool is_awaited) {
  key_.assign(bindings.symbols.begin(), bindings.symbols.end());
  uses_staging_ = false;
  const auto add = [&](Place place, const TensorBinding& binding) {
    const bool names_address =
        place == Place::kDevice || place == Place::kPinnedMapped || place == Place::kPinnedRead;
    key_.push_back(static_cast<uint64_t>(place));
    key_.push_back(names_address ? reinterpret_cast<uint64_t>(binding.data) : 0);
    uses_staging_ =
        uses_staging_ || (!names_address && place != Place::kPinned && binding.bytes > 0);
  };
  ChooseInputPlaces(bindings);
  for (size_t i = 0; i < bindings.inputs.size(); ++i) add(input_places_[i], bindings.inputs[i]);
  output_places_.clear();
  for (const TensorBinding& output : bindings.outputs) {
    output_places_.push_back(PlaceOfOutput(output_places_.size(), output));
    add(output_places_.back(), output);
  }
  const bool ends_with_graph =
      std::none_of(output_places_.begin(), output_places_.end(),
                   [](Place place) { return place == Place::kPinned || place == Place::kPieces; });
  signals_end_ = is_awaited && ends_with_graph && device_.use_graphs() &&
                 device_.kernels().of_runtime().end_run != nullptr;
  key_.push_back(signals_end_);
}

CudaExecutor::Staging CudaExecutor::LayOutStaging(const RunBindings& bindings) const {
  Staging staging;
  size_t end = 0;
  // Gives all tensors of a place room.
  const auto add = [&](Place place, std::span<const TensorBinding> tensors,
                       const std::vector<Place>& places, std::vector<StagedTensor>& staged) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (places[i] != place || tensors[i].bytes == 0) continue;
      staged.push_back({i, place, end, tensors[i].bytes});
      end += RoundUp(tensors[i].bytes);
    }
  };
  const auto add_inputs = [&](Place place) {
    add(place, bindings.inputs, input_places_, staging.inputs);
  };
  const auto add_outputs = [&](Place place) {
    add(place, bindings.outputs, output_places_, staging.outputs);
  };
  add_inputs(Place::kStaged);
  if (end > 0) staging.graph_bytes = staging.inputs.back().offset + staging.inputs.back().bytes;
  add_outputs(Place::kStagedMapped);
  add_inputs(Place::kPieces);
  add_outputs(Place::kPieces);
  staging.host_bytes = end;
  add_inputs(Place::kPinnedRead);
  add_inputs(Place::kPinned);
  add_outputs(Place::kPinned);
  staging.device_bytes = end;
  return staging;
}

Status CudaExecutor::Reserve(size_t arena_bytes, size_t host_bytes, size_t device_bytes) {
  if (arena_bytes <= arena_bytes_ && host_bytes <= staging_host_bytes_ &&
      device_bytes <= staging_device_bytes_) {
    return {};
  }
  FinishEarlier();
  // They hold the old addresses, at which other memory may soon be.
  prepared_.remove_if([](const Prepared& one) { return !one.graph.HasOnlyKernels(); });
  for (Prepared& prepared : prepared_) prepared.is_current = false;
  const auto grow = [](auto& memory, size_t& has, size_t needs, const auto& allocate) -> Status {
    if (needs <= has) return {};
    memory = {};  // first, for both together may not fit
    has = 0;
    FUSEC_RT_ASSIGN(memory, allocate());
    has = needs;
    return {};
  };
  FUSEC_RT_TRY(grow(arena_, arena_bytes_, arena_bytes, [&] {
    return AllocateDevice(context_, arena_bytes, "the arena of a context");
  }));
  FUSEC_RT_TRY(grow(staging_device_, staging_device_bytes_, device_bytes, [&] {
    return AllocateDevice(context_, device_bytes, "copies of inputs and outputs");
  }));
  FUSEC_RT_TRY(grow(staging_host_, staging_host_bytes_, host_bytes, [&] {
    return AllocatePinned(context_, host_bytes, "staging of inputs and outputs");
  }));
  if (staging_host_bytes_ == 0) return {};
  return FUSEC_CUDA(context_, "staging of inputs and outputs", cuMemHostGetDevicePointer,
                    &staging_host_address_, staging_host_.get(), 0);
}

StatusOr<CudaExecutor::Addresses> CudaExecutor::Locate(const RunBindings& bindings) {
  Addresses addresses{{}, LayOutStaging(bindings)};
  const Staging& staging = addresses.staging;
  FUSEC_RT_TRY(Reserve(RoundUp(static_cast<size_t>(bindings.arena->bytes), kArenaStep),
                       RoundUp(staging.host_bytes, kStagingStep),
                       RoundUp(staging.device_bytes, kStagingStep)));
  const Manifest& manifest = device_.manifest();
  addresses.buffers.resize(manifest.buffers.size());
  for (size_t i = 0; i < manifest.buffers.size(); ++i) {
    const int64_t offset = bindings.arena->offsets[i];
    addresses.buffers[i] = offset >= 0 ? arena_.get() + static_cast<CUdeviceptr>(offset)
                                       : device_.weights().Address(static_cast<int>(i));
  }
  const auto locate = [&](const TensorSignature& tensor, const TensorBinding& binding,
                          Place place) -> Status {
    FUSEC_RT_TRY(CheckAligned(binding, tensor));
    const bool in_place = place == Place::kDevice || place == Place::kPinnedMapped;
    // The GPU and the host share one space of addresses. What is empty has no place in staging.
    addresses.buffers[static_cast<size_t>(tensor.buffer)] =
        in_place ? reinterpret_cast<CUdeviceptr>(binding.data) : staging_device_.get();
    return {};
  };
  for (size_t i = 0; i < bindings.inputs.size(); ++i) {
    FUSEC_RT_TRY(locate(manifest.inputs[i], bindings.inputs[i], input_places_[i]));
  }
  for (size_t i = 0; i < bindings.outputs.size(); ++i) {
    FUSEC_RT_TRY(locate(manifest.outputs[i], bindings.outputs[i], output_places_[i]));
  }
  for (const StagedTensor& input : staging.inputs) {
    addresses.buffers[static_cast<size_t>(manifest.inputs[input.tensor].buffer)] += input.offset;
  }
  for (const StagedTensor& output : staging.outputs) {
    const bool is_mapped = output.place == Place::kStagedMapped;
    addresses.buffers[static_cast<size_t>(manifest.outputs[output.tensor].buffer)] =
        (is_mapped ? staging_host_address_ : staging_device_.get()) + output.offset;
  }
  return addresses;
}

}  // namespace fusec::runtime
