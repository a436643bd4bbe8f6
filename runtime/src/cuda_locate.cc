// CudaExecutor's memory: where the buffers of a run lie.
#include <algorithm>

#include "runtime/src/cuda_executor.h"

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

CudaExecutor::OutputPlace CudaExecutor::PlaceOf(size_t output, const TensorBinding& binding) const {
  if (binding.on_device) return OutputPlace::kDevice;
  const bool is_mapped = only_stored_to_[output] && binding.bytes <= kMaxMappedBytes;
  if (!device_.IsPinned(binding.data, binding.bytes))
    return is_mapped ? OutputPlace::kStagedMapped : OutputPlace::kStaged;
  const bool is_aligned = reinterpret_cast<uintptr_t>(binding.data) % kVectorBytes == 0;
  return is_mapped && is_aligned ? OutputPlace::kPinnedMapped : OutputPlace::kPinned;
}

// All that the operations depend on; the memory that the executor owns only changes when it says
// so of what it prepared.
void CudaExecutor::MakeKey(const RunBindings& bindings) {
  key_.assign(bindings.symbols.begin(), bindings.symbols.end());
  uses_staging_ = false;
  for (const TensorBinding& input : bindings.inputs) {
    key_.push_back(input.on_device ? reinterpret_cast<uint64_t>(input.data) : 0);
    uses_staging_ = uses_staging_ || (!input.on_device && input.bytes > 0);
  }
  places_.clear();
  for (const TensorBinding& output : bindings.outputs) {
    const OutputPlace place = PlaceOf(places_.size(), output);
    const bool is_staged = place == OutputPlace::kStaged || place == OutputPlace::kStagedMapped;
    places_.push_back(place);
    key_.push_back(static_cast<uint64_t>(place));
    key_.push_back(is_staged ? 0 : reinterpret_cast<uint64_t>(output.data));
    uses_staging_ = uses_staging_ || (is_staged && output.bytes > 0);
  }
}

void CudaExecutor::LayOutStaging(const RunBindings& bindings, Staging& staging) const {
  size_t end = 0;
  for (size_t i = 0; i < bindings.inputs.size(); ++i) {
    const TensorBinding& input = bindings.inputs[i];
    if (input.on_device || input.bytes == 0) continue;
    staging.inputs.push_back({i, end, input.bytes});
    staging.input_bytes = end + input.bytes;
    end += RoundUp(input.bytes);
  }
  const auto add_outputs = [&](OutputPlace place, const auto& add) {
    for (size_t i = 0; i < bindings.outputs.size(); ++i) {
      const TensorBinding& output = bindings.outputs[i];
      if (places_[i] != place || output.bytes == 0) continue;
      add(i, output);
      end += RoundUp(output.bytes);
    }
  };
  staging.output_begin = end;
  add_outputs(OutputPlace::kStaged, [&](size_t i, const TensorBinding& output) {
    staging.outputs.push_back({i, end, output.bytes});
    staging.output_bytes = end + output.bytes - staging.output_begin;
  });
  add_outputs(OutputPlace::kStagedMapped, [&](size_t i, const TensorBinding& output) {
    staging.outputs.push_back({i, end, output.bytes});
  });
  staging.host_bytes = end;
  add_outputs(OutputPlace::kPinned, [&](size_t i, const TensorBinding& output) {
    staging.pinned_outputs.push_back({i, end, output.bytes});
  });
  staging.device_bytes = end;
}

CUdeviceptr CudaExecutor::AddressOf(size_t output, const TensorBinding& binding,
                                    const Staging& staging) const {
  const auto offset = [output](const std::vector<StagedTensor>& tensors) {
    for (const StagedTensor& tensor : tensors) {
      if (tensor.tensor == output) return static_cast<CUdeviceptr>(tensor.offset);
    }
    return CUdeviceptr{0};  // it is empty
  };
  switch (places_[output]) {
    case OutputPlace::kPinned:
      return staging_device_.get() + offset(staging.pinned_outputs);
    case OutputPlace::kStaged:
      return staging_device_.get() + offset(staging.outputs);
    case OutputPlace::kStagedMapped:
      return staging_host_address_ + offset(staging.outputs);
    case OutputPlace::kDevice:
    case OutputPlace::kPinnedMapped:  // the GPU and the host share one space of addresses
      break;
  }
  return reinterpret_cast<CUdeviceptr>(binding.data);
}

Status CudaExecutor::Reserve(size_t arena_bytes, size_t host_bytes, size_t device_bytes) {
  if (arena_bytes <= arena_bytes_ && host_bytes <= staging_host_bytes_ &&
      device_bytes <= staging_device_bytes_) {
    return {};
  }
  FinishEarlier();
  for (Prepared& prepared : prepared_) prepared.is_current = false;  // they hold the old addresses
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
  Addresses addresses;
  Staging& staging = addresses.staging;
  LayOutStaging(bindings, staging);
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
  size_t staged_input = 0;
  for (size_t i = 0; i < bindings.inputs.size(); ++i) {
    const TensorBinding& binding = bindings.inputs[i];
    FUSEC_RT_TRY(CheckAligned(binding, manifest.inputs[i]));
    addresses.buffers[static_cast<size_t>(manifest.inputs[i].buffer)] =
        binding.on_device    ? reinterpret_cast<CUdeviceptr>(binding.data)
        : binding.bytes == 0 ? staging_device_.get()
                             : staging_device_.get() + staging.inputs[staged_input++].offset;
  }
  for (size_t i = 0; i < bindings.outputs.size(); ++i) {
    const TensorBinding& binding = bindings.outputs[i];
    FUSEC_RT_TRY(CheckAligned(binding, manifest.outputs[i]));
    addresses.buffers[static_cast<size_t>(manifest.outputs[i].buffer)] =
        AddressOf(i, binding, staging);
  }
  for (const StagedTensor& output : staging.pinned_outputs) {
    addresses.copies.push_back({staging_device_.get() + output.offset,
                                bindings.outputs[output.tensor].data, output.bytes, false});
  }
  return addresses;
}

}  // namespace fusec::runtime
