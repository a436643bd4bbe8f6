// CudaExecutor's memory: where the buffers of a run lie.
#include <algorithm>

#include "runtime/src/cuda_executor.h"

namespace fusec::runtime {
namespace {

constexpr size_t kAlignment = 256;

size_t RoundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Generated kernels read and write 16 bytes at a time.
Status CheckAligned(const TensorBinding& binding, const TensorSignature& tensor) {
  constexpr uintptr_t kNeeded = 16;
  const uintptr_t address = reinterpret_cast<uintptr_t>(binding.data);
  if (!binding.on_device || address % kNeeded == 0) return {};
  return Fail(FUSEC_BAD_INPUT, "the device memory of \"", tensor.name, "\" starts ",
              address % kNeeded, " bytes after a multiple of ", kNeeded,
              ", expected a multiple of ", kNeeded);
}

}  // namespace

// All that the operations depend on; the memory that the executor owns only changes when it says
// so of what it prepared.
void CudaExecutor::MakeKey(const RunBindings& bindings) {
  key_.assign(bindings.symbols.begin(), bindings.symbols.end());
  uses_staging_ = false;
  for (const auto& tensors : {bindings.inputs, bindings.outputs}) {
    const bool is_output = tensors.data() == bindings.outputs.data();
    for (const TensorBinding& tensor : tensors) {
      const bool is_direct =
          is_output && !tensor.on_device && device_.IsPinned(tensor.data, tensor.bytes);
      const bool is_staged = !tensor.on_device && !is_direct;
      key_.push_back(tensor.on_device ? 2 : is_direct ? 1 : 0);
      key_.push_back(is_staged ? 0 : reinterpret_cast<uint64_t>(tensor.data));
      uses_staging_ = uses_staging_ || (is_staged && tensor.bytes > 0);
    }
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
  staging.output_begin = end;
  for (size_t i = 0; i < bindings.outputs.size(); ++i) {
    const TensorBinding& output = bindings.outputs[i];
    if (output.on_device || output.bytes == 0 || device_.IsPinned(output.data, output.bytes))
      continue;
    staging.outputs.push_back({i, end, output.bytes});
    staging.output_bytes = end + output.bytes - staging.output_begin;
    end += RoundUp(output.bytes);
  }
  staging.host_bytes = end;
  for (const TensorBinding& output : bindings.outputs) {
    if (output.on_device || output.bytes == 0 || !device_.IsPinned(output.data, output.bytes))
      continue;
    staging.direct_outputs.push_back({end, output.data, output.bytes, false});
    end += RoundUp(output.bytes);
  }
  staging.device_bytes = end;
}

Status CudaExecutor::Reserve(size_t arena_bytes, size_t host_bytes, size_t device_bytes) {
  if (arena_bytes <= arena_bytes_ && host_bytes <= staging_host_bytes_ &&
      device_bytes <= staging_device_bytes_) {
    return {};
  }
  FinishEarlier();
  for (Prepared& prepared : prepared_) prepared.is_current = false;  // they hold the old addresses
  captured_.clear();
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
  return grow(staging_host_, staging_host_bytes_, host_bytes, [&] {
    return AllocatePinned(context_, host_bytes, "staging of inputs and outputs");
  });
}

StatusOr<CudaExecutor::Addresses> CudaExecutor::Locate(const RunBindings& bindings) {
  Addresses addresses;
  Staging& staged = addresses.staging;
  LayOutStaging(bindings, staged);
  FUSEC_RT_TRY(
      Reserve(static_cast<size_t>(bindings.arena->bytes), staged.host_bytes, staged.device_bytes));
  const Manifest& manifest = device_.manifest();
  addresses.buffers.resize(manifest.buffers.size());
  for (size_t i = 0; i < manifest.buffers.size(); ++i) {
    const int64_t offset = bindings.arena->offsets[i];
    addresses.buffers[i] = offset >= 0 ? arena_.get() + static_cast<CUdeviceptr>(offset)
                                       : device_.weights().Address(static_cast<int>(i));
  }
  const CUdeviceptr staging = staging_device_.get();
  for (CopyOperation& copy : staged.direct_outputs) copy.device += staging;
  // The three lists hold the host tensors in the order of the manifest.
  size_t input = 0, output = 0, direct = 0;
  for (size_t i = 0; i < bindings.inputs.size(); ++i) {
    const TensorBinding& binding = bindings.inputs[i];
    FUSEC_RT_TRY(CheckAligned(binding, manifest.inputs[i]));
    addresses.buffers[static_cast<size_t>(manifest.inputs[i].buffer)] =
        binding.on_device    ? reinterpret_cast<CUdeviceptr>(binding.data)
        : binding.bytes == 0 ? staging
                             : staging + staged.inputs[input++].offset;
  }
  for (size_t i = 0; i < bindings.outputs.size(); ++i) {
    const TensorBinding& binding = bindings.outputs[i];
    FUSEC_RT_TRY(CheckAligned(binding, manifest.outputs[i]));
    CUdeviceptr& address = addresses.buffers[static_cast<size_t>(manifest.outputs[i].buffer)];
    if (binding.on_device) {
      address = reinterpret_cast<CUdeviceptr>(binding.data);
    } else if (binding.bytes == 0) {
      address = staging;
    } else if (device_.IsPinned(binding.data, binding.bytes)) {
      address = staged.direct_outputs[direct++].device;
    } else {
      address = staging + staged.outputs[output++].offset;
    }
  }
  return addresses;
}

}  // namespace fusec::runtime
