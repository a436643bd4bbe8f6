#include "runtime/src/cpu/cpu_executor.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "runtime/src/artifact/dtype.h"
#include "runtime/src/artifact/step_sizes.h"
#include "runtime/src/parallel.h"

namespace fusec::runtime {
namespace {

using Clock = std::chrono::steady_clock;

double MicrosecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

constexpr size_t kArenaAlignment = 256;
constexpr size_t kGivenAlignment = 16;  // malloc's; kernels may use aligned vectors of this size

// Empty buffers point here, because a kernel that has found a bad index still reads element 0.
alignas(256) std::byte empty_buffer[256];

}  // namespace

void AlignedMemory::Free::operator()(std::byte* memory) const { std::free(memory); }

Status AlignedMemory::Reserve(size_t bytes, const char* what) {
  if (memory_ && bytes <= capacity_) return {};
  memory_.reset();
  capacity_ = 0;
  const size_t room = (bytes / kArenaAlignment + 1) * kArenaAlignment;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kArenaAlignment, room)));
  if (memory_) {
    capacity_ = room;
    return {};
  }
  return Fail(FUSEC_NO_DEVICE, "cannot allocate ", bytes, " bytes of memory for ", what);
}

CpuExecutor::CpuExecutor(CpuProgram& program)
    : program_(program),
      manifest_(program.artifact.manifest()),
      buffers_(manifest_.buffers.size(), empty_buffer),
      steps_(program.target.steps.size()),
      aligned_inputs_(manifest_.inputs.size()),
      aligned_outputs_(manifest_.outputs.size()) {
  for (size_t i = 0; i < steps_.size(); ++i) {
    const auto& arguments = program.target.steps[i].kernel.arguments;
    steps_[i].dims.resize(arguments.size());
    steps_[i].tables.resize(arguments.size());
    for (size_t j = 0; j < arguments.size(); ++j) {
      switch (arguments[j].kind) {
        case KernelArgument::Kind::kBuffer:
          steps_[i].arguments.push_back(&buffers_[arguments[j].buffer]);
          break;
        case KernelArgument::Kind::kBuffers:
          steps_[i].tables[j].resize(arguments[j].buffers.size());
          for (size_t k = 0; k < arguments[j].buffers.size(); ++k)
            listed_.push_back({&steps_[i].tables[j][k], arguments[j].buffers[k]});
          steps_[i].arguments.push_back(steps_[i].tables[j].data());
          break;
        case KernelArgument::Kind::kErrors:
          steps_[i].arguments.push_back(&error_address_);
          break;
        // The first four bytes of a little-endian int64 are the int32.
        case KernelArgument::Kind::kInt32:
        case KernelArgument::Kind::kInt64:
          steps_[i].arguments.push_back(&steps_[i].dims[j]);
          break;
      }
    }
  }
}

void CpuExecutor::TakeWeights(std::shared_ptr<CpuWeights> weights) {
  weights_ = std::move(weights);
  matmul_.emplace(program_.onednn, weights_->for_matmuls);
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const auto constant = weights_->artifact->Constant(static_cast<int>(i));
    if (!constant.empty()) buffers_[i] = const_cast<std::byte*>(constant.data());
  }
}

Status CpuExecutor::UpdateKernel(const Step& step, StepState& state,
                                 std::span<const int64_t> symbols) {
  FUSEC_RT_ASSIGN(state.blocks, EvaluateBlocks(step, symbols));
  for (size_t j = 0; j < step.kernel.arguments.size(); ++j) {
    const KernelArgument& argument = step.kernel.arguments[j];
    const bool narrow = argument.kind == KernelArgument::Kind::kInt32;
    if (!narrow && argument.kind != KernelArgument::Kind::kInt64) continue;
    FUSEC_RT_ASSIGN(state.dims[j], argument.dim.Evaluate(symbols));
    if (narrow && state.dims[j] != static_cast<int32_t>(state.dims[j])) {
      return Fail(FUSEC_BAD_INPUT, "step \"", step.name, "\": the dim ", argument.dim.text(), " = ",
                  state.dims[j], " does not fit in 32 bits");
    }
  }
  return {};
}

Status CpuExecutor::Update(const RunBindings& bindings) {
  dims_version_ = 0;  // until the update has succeeded
  const auto& symbols = bindings.symbols;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = program_.target.steps[i];
    FUSEC_RT_ASSIGN(steps_[i].runs, Runs(step, symbols));
    if (!steps_[i].runs) continue;
    FUSEC_RT_ASSIGN(const int64_t bytes_read, step.bytes_read.Evaluate(symbols));
    FUSEC_RT_ASSIGN(const int64_t bytes_written, step.bytes_written.Evaluate(symbols));
    FUSEC_RT_ASSIGN(const int64_t flops, step.flops.Evaluate(symbols));
    steps_[i].useful_threads =
        UsefulThreads(static_cast<double>(bytes_read) + static_cast<double>(bytes_written),
                      static_cast<double>(flops), program_.threads);
    if (step.kind == Step::Kind::kKernel) {
      FUSEC_RT_TRY(UpdateKernel(step, steps_[i], symbols));
    } else {
      FUSEC_RT_ASSIGN(steps_[i].sizes,
                      EvaluateMatmul(manifest_, step, symbols, bindings.buffer_bytes));
    }
  }
  FUSEC_RT_TRY(arena_.Reserve(static_cast<size_t>(bindings.arena->bytes), "the arena"));
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const int64_t offset = bindings.arena->offsets[i];
    if (offset >= 0) buffers_[i] = arena_.data() + offset;
  }
  dims_version_ = bindings.dims_version;
  return {};
}

Status CpuExecutor::BindTensors(const RunBindings& bindings) {
  const auto is_aligned = [](const TensorBinding& tensor) {
    return reinterpret_cast<uintptr_t>(tensor.data) % kGivenAlignment == 0;
  };
  for (size_t i = 0; i < bindings.inputs.size(); ++i) {
    const TensorBinding& tensor = bindings.inputs[i];
    void*& buffer = buffers_[manifest_.inputs[i].buffer];
    buffer = tensor.bytes > 0 ? tensor.data : empty_buffer;
    if (tensor.bytes == 0 || is_aligned(tensor)) continue;
    FUSEC_RT_TRY(aligned_inputs_[i].Reserve(tensor.bytes, "an input"));
    std::memcpy(aligned_inputs_[i].data(), tensor.data, tensor.bytes);
    buffer = aligned_inputs_[i].data();
  }
  for (size_t i = 0; i < bindings.outputs.size(); ++i) {
    const TensorBinding& tensor = bindings.outputs[i];
    void*& buffer = buffers_[manifest_.outputs[i].buffer];
    buffer = tensor.bytes > 0 ? tensor.data : empty_buffer;
    if (tensor.bytes == 0 || is_aligned(tensor)) continue;
    FUSEC_RT_TRY(aligned_outputs_[i].Reserve(tensor.bytes, "an output"));
    buffer = aligned_outputs_[i].data();
  }
  for (const TensorSignature& output : manifest_.outputs) {
    const int input = manifest_.buffers[output.buffer].in_place_of;
    if (input < 0 || buffers_[output.buffer] == buffers_[input]) continue;
    std::memcpy(buffers_[output.buffer], buffers_[input],
                static_cast<size_t>(bindings.buffer_bytes[output.buffer]));
  }
  return {};
}

Status CpuExecutor::RunMatmul(int index, int threads) {
  const MatmulSizes& sizes = steps_[index].sizes;
  for (int64_t call = 0; call < sizes.Calls(); ++call) {
    FUSEC_RT_TRY(RunMatmulCall(index, sizes.OfCall(call), threads));
  }
  return {};
}

Status CpuExecutor::RunMatmulCall(int index, const MatmulSizes& sizes, int threads) {
  const Matmul& matmul = program_.target.steps[index].matmul;
  const auto at = [this](int buffer, int64_t offset, fusec_dtype dtype) {
    return static_cast<std::byte*>(buffers_[buffer]) + offset * DtypeBytes(dtype);
  };
  CpuMatmulCall call;
  call.matmul = {matmul.dtype, sizes, matmul.transpose_a, matmul.transpose_b, matmul.activation};
  call.matmul.has_short_factors = matmul.HasShortFactors();
  if (!sizes.IsEmpty()) {
    if (sizes.k > 0) {
      call.matmul.a = at(matmul.a.buffer, sizes.a_offset, matmul.a.dtype);
      call.matmul.b = at(matmul.b.buffer, sizes.b_offset, matmul.b.dtype);
    }
    call.matmul.d = at(matmul.d.buffer, sizes.d_offset, matmul.dtype);
  }
  if (matmul.bias >= 0) call.matmul.bias = at(matmul.bias, sizes.bias_offset, matmul.dtype);
  if (matmul.addend >= 0) call.matmul.addend = buffers_[matmul.addend];
  call.constant_b = weights_->artifact->Constant(matmul.b.buffer);
  return matmul_->Run(index, call, threads);
}

Status CpuExecutor::RunStep(size_t index, int threads) {
  const StepState& state = steps_[index];
  const int step_threads = std::min(threads, state.useful_threads);
  if (program_.target.steps[index].kind == Step::Kind::kMatmul) {
    return RunMatmul(static_cast<int>(index), step_threads);
  }
  const auto function = program_.functions[index];
  void* const* arguments = state.arguments.data();
  ParallelFor(step_threads, state.blocks, [function, arguments](int64_t first, int64_t last) {
    function(arguments, first, last);
  });
  return {};
}

Status CpuExecutor::RunSteps(int threads) {
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (!steps_[i].runs) continue;
    const Clock::time_point start = step_us_ ? Clock::now() : Clock::time_point();
    FUSEC_RT_TRY(RunStep(i, threads));
    if (step_us_) (*step_us_)[i] = MicrosecondsSince(start);
  }
  return {};
}

Status CpuExecutor::Run(const RunBindings& bindings) {
  const Gate::Inside inside(program_.runs);
  if (auto weights = program_.weights.Get(); weights != weights_) TakeWeights(std::move(weights));
  FUSEC_RT_TRY(weights_->artifact->CheckWeights());
  if (dims_version_ == 0 || dims_version_ != bindings.dims_version) FUSEC_RT_TRY(Update(bindings));
  FUSEC_RT_TRY(BindTensors(bindings));
  for (const Listed& listed : listed_) *listed.place = buffers_[listed.buffer];
  error_ = {};
  {
    const ThreadShare share(program_.threads);
    FUSEC_RT_TRY(RunSteps(share.threads()));
  }
  for (size_t i = 0; i < bindings.outputs.size(); ++i) {
    const TensorBinding& tensor = bindings.outputs[i];
    const void* written = buffers_[manifest_.outputs[i].buffer];
    if (tensor.bytes > 0 && written != tensor.data) std::memcpy(tensor.data, written, tensor.bytes);
  }
  return CheckIndexError(manifest_, bindings.symbols, error_);
}

Status CpuExecutor::RunAsync(const RunBindings& bindings, void*) { return Run(bindings); }

StatusOr<std::vector<double>> CpuExecutor::MeasureRuns(const RunBindings& bindings, int count) {
  std::vector<double> microseconds;
  for (int i = 0; i < count; ++i) {
    const auto start = Clock::now();
    FUSEC_RT_TRY(Run(bindings));
    microseconds.push_back(MicrosecondsSince(start));
  }
  return microseconds;
}

StatusOr<std::vector<double>> CpuExecutor::MeasureSteps(const RunBindings& bindings) {
  std::vector<double> microseconds(steps_.size());
  step_us_ = &microseconds;
  const Status run = Run(bindings);
  step_us_ = nullptr;
  FUSEC_RT_TRY(run);
  return microseconds;
}

}  // namespace fusec::runtime
