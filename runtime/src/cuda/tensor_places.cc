#include "runtime/src/cuda/tensor_places.h"

#include <algorithm>
#include <span>

namespace fusec::runtime {
namespace {

constexpr size_t kMaxMappedBytes = 64 << 10;
// Copying fewer bytes to staging takes less time than changing an address in the graph.
constexpr size_t kMinPinnedReadBytes = 8 << 10;
// The kernel has enough segments for all such inputs, or for fewer of them and the staged inputs.
static_assert(TensorPlaces::kMaxCopyKernelBytes / kMinPinnedReadBytes <=
              CudaInputCopy::kMostSegments);
// Copying fewer bytes to staging takes less time than enqueuing a copy in the driver.
constexpr size_t kMinPinnedInputBytes = 32 << 10;

// Tensors in staging are aligned to 256 bytes.
constexpr size_t RoundUp(size_t bytes) { return (bytes + 255) / 256 * 256; }

bool IsAligned(const TensorBinding& binding) {
  return reinterpret_cast<uintptr_t>(binding.data) % TensorPlaces::kVectorBytes == 0;
}

// Whether kernels or the copy kernel get the address that the caller bound, not one in staging.
bool NamesAddress(TensorPlace place) {
  return place == TensorPlace::kDevice || place == TensorPlace::kPinnedMapped ||
         place == TensorPlace::kPinnedRead;
}

// Whether no step reads the buffer, and only kernels that permit page-locked outputs store to all
// of it.
bool MayBeMapped(int buffer, const Manifest& manifest, const Target& target) {
  if (manifest.buffers[buffer].in_place_of >= 0) return false;
  const auto has = [buffer](const std::vector<int>& buffers) {
    return std::find(buffers.begin(), buffers.end(), buffer) != buffers.end();
  };
  return std::none_of(target.steps.begin(), target.steps.end(), [&](const Step& step) {
    const bool on_device = step.kind == Step::Kind::kMatmul || step.kernel.outputs_in_device_memory;
    return has(step.inputs) || (has(step.outputs) && on_device);
  });
}

}  // namespace

TensorPlaces::TensorPlaces(const CudaDevice& device) : device_(device) {
  for (const TensorSignature& output : device.manifest().outputs)
    may_be_mapped_.push_back(MayBeMapped(output.buffer, device.manifest(), device.target()));
}

TensorPlace TensorPlaces::PlaceOfInput(const TensorBinding& binding) const {
  if (binding.on_device) return TensorPlace::kDevice;
  if (device_.input_copy() && IsAligned(binding) && binding.bytes >= kMinPinnedReadBytes &&
      binding.bytes <= kMaxCopyKernelBytes && device_.OwnsHost(binding.data, binding.bytes))
    return TensorPlace::kPinnedRead;
  if (binding.bytes >= kMinPinnedInputBytes && device_.IsPageLocked(binding.data, binding.bytes))
    return TensorPlace::kPinned;
  return binding.bytes >= kMinThreadsBytes ? TensorPlace::kPieces : TensorPlace::kStaged;
}

TensorPlace TensorPlaces::PlaceOfOutput(size_t output, const TensorBinding& binding) const {
  if (binding.on_device) return TensorPlace::kDevice;
  if (may_be_mapped_[output] && binding.bytes <= kMaxMappedBytes) {
    return IsAligned(binding) && device_.OwnsHost(binding.data, binding.bytes)
               ? TensorPlace::kPinnedMapped
               : TensorPlace::kStagedMapped;
  }
  return device_.IsPageLocked(binding.data, binding.bytes) ? TensorPlace::kPinned
                                                           : TensorPlace::kPieces;
}

void TensorPlaces::Choose(const RunBindings& bindings) {
  inputs_.clear();
  size_t kernel_bytes = 0;  // bytes that the kernel would copy
  for (const TensorBinding& input : bindings.inputs) {
    const TensorPlace place = PlaceOfInput(input);
    inputs_.push_back(place);
    if (place == TensorPlace::kPinnedRead || place == TensorPlace::kStaged)
      kernel_bytes += RoundUp(input.bytes);
  }
  for (size_t i = 0; kernel_bytes > kMaxCopyKernelBytes && i < inputs_.size(); ++i) {
    if (inputs_[i] != TensorPlace::kPinnedRead) continue;
    inputs_[i] = bindings.inputs[i].bytes >= kMinPinnedInputBytes ? TensorPlace::kPinned
                                                                  : TensorPlace::kStaged;
  }
  outputs_.clear();
  for (const TensorBinding& output : bindings.outputs)
    outputs_.push_back(PlaceOfOutput(outputs_.size(), output));

  uses_host_staging_ = copies_behind_graph_ = false;
  const auto note_staging = [this](TensorPlace place, const TensorBinding& binding) {
    uses_host_staging_ |=
        !NamesAddress(place) && place != TensorPlace::kPinned && binding.bytes > 0;
  };
  for (size_t i = 0; i < inputs_.size(); ++i) note_staging(inputs_[i], bindings.inputs[i]);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    note_staging(outputs_[i], bindings.outputs[i]);
    copies_behind_graph_ |=
        outputs_[i] == TensorPlace::kPinned || outputs_[i] == TensorPlace::kPieces;
  }
}

void TensorPlaces::AppendTo(std::vector<uint64_t>& key, const RunBindings& bindings) const {
  const auto append = [&key](TensorPlace place, const TensorBinding& binding) {
    key.push_back(static_cast<uint64_t>(place));
    key.push_back(NamesAddress(place) ? reinterpret_cast<uint64_t>(binding.data) : 0);
  };
  for (size_t i = 0; i < inputs_.size(); ++i) append(inputs_[i], bindings.inputs[i]);
  for (size_t i = 0; i < outputs_.size(); ++i) append(outputs_[i], bindings.outputs[i]);
}

StagingLayout TensorPlaces::LayOut(const RunBindings& bindings) const {
  StagingLayout layout;
  size_t end = 0;
  // Assigns room in staging to all tensors with this place.
  const auto add = [&](TensorPlace place, std::span<const TensorBinding> tensors,
                       const std::vector<TensorPlace>& places, std::vector<StagedTensor>& staged) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (places[i] != place || tensors[i].bytes == 0) continue;
      staged.push_back({i, place, end, tensors[i].bytes});
      end += RoundUp(tensors[i].bytes);
    }
  };
  const auto add_inputs = [&](TensorPlace place) {
    add(place, bindings.inputs, inputs_, layout.inputs);
  };
  const auto add_outputs = [&](TensorPlace place) {
    add(place, bindings.outputs, outputs_, layout.outputs);
  };
  add_inputs(TensorPlace::kStaged);
  if (end > 0) layout.graph_bytes = layout.inputs.back().offset + layout.inputs.back().bytes;
  add_outputs(TensorPlace::kStagedMapped);
  add_inputs(TensorPlace::kPieces);
  add_outputs(TensorPlace::kPieces);
  layout.host_bytes = end;
  add_inputs(TensorPlace::kPinnedRead);
  add_inputs(TensorPlace::kPinned);
  add_outputs(TensorPlace::kPinned);
  layout.device_bytes = end;
  return layout;
}

}  // namespace fusec::runtime
