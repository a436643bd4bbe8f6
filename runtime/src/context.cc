#include "runtime/src/context.h"

#include <algorithm>
#include <string>

#include "runtime/src/arena.h"
#include "runtime/src/artifact/bind_symbols.h"
#include "runtime/src/artifact/dtype.h"
#include "runtime/src/artifact/run_time_sizes.h"
#include "runtime/src/artifact/step_order.h"

namespace fusec::runtime {
namespace {

// The size of a tensor in bytes, or -1 if a dim is negative or the product overflows.
StatusOr<int64_t> TensorBytes(const TensorSignature& tensor, std::span<const int64_t> symbols) {
  int64_t bytes = DtypeBytes(tensor.dtype);
  bool good = true, is_empty = false;
  for (const DimExpression& dim : tensor.shape) {
    FUSEC_RT_ASSIGN(const int64_t size, dim.Evaluate(symbols));
    if (size < 0) good = false;
    if (size == 0)
      is_empty = true;
    else if (__builtin_mul_overflow(bytes, size, &bytes))
      good = false;
  }
  return !good ? -1 : is_empty ? 0 : bytes;
}

// Checks that every input and output is as large as its buffer; otherwise a damaged or hostile
// artifact could make a run access memory outside of a buffer.
Status CheckSignatureSizes(const Manifest& manifest, std::span<const int64_t> symbols,
                           std::span<const int64_t> buffer_bytes) {
  for (const auto* tensors : {&manifest.inputs, &manifest.outputs}) {
    for (const TensorSignature& tensor : *tensors) {
      FUSEC_RT_ASSIGN(const int64_t bytes, TensorBytes(tensor, symbols));
      if (bytes == buffer_bytes[tensor.buffer]) continue;
      return Fail(FUSEC_BAD_ARTIFACT, "tensor \"", tensor.name, "\" does not fill its buffer of ",
                  buffer_bytes[tensor.buffer], " bytes");
    }
  }
  return {};
}

// Checks that the outputs of each step have room for its `bytes_written`. What a kernel stores is
// fixed in its code, so it would write past the end of a buffer that the manifest declares too
// small.
Status CheckRoomForResults(const Manifest& manifest, const Target& target,
                           std::span<const int64_t> symbols,
                           std::span<const int64_t> buffer_bytes) {
  const Step* last = nullptr;
  for (const Step& step : target.steps) {
    const bool is_alternative = last && step.outputs == last->outputs &&
                                step.bytes_written.text() == last->bytes_written.text();
    last = &step;
    if (is_alternative) continue;
    FUSEC_RT_ASSIGN(const int64_t written, step.bytes_written.Evaluate(symbols));
    int64_t missing = written;  // stops at 0, so that nothing overflows
    for (const int buffer : step.outputs) missing -= std::min(missing, buffer_bytes[buffer]);
    if (missing == 0) continue;
    std::string names;
    for (const int buffer : step.outputs) names += " \"" + manifest.buffers[buffer].name + "\"";
    return Fail(FUSEC_BAD_ARTIFACT, "step \"", step.name, "\" writes ", written, " bytes, ",
                missing, " more than its buffers hold:", names);
  }
  return {};
}

// Whether a symbol is 0 although its minimum is larger: no kernel runs then, and all outputs must
// be empty.
bool IsEmptyRun(const Manifest& manifest, std::span<const int64_t> symbols) {
  for (size_t i = 0; i < symbols.size(); ++i) {
    if (symbols[i] < manifest.symbols[i].min) return true;
  }
  return false;
}

}  // namespace

Context::Context(const Program& program)
    : program_(program),
      inputs_(program.manifest().inputs.size()),
      given_outputs_(program.manifest().outputs.size()),
      run_outputs_(given_outputs_.size()),
      input_is_bound_(inputs_.size()),
      output_is_given_(given_outputs_.size()),
      input_dims_(inputs_.size()),
      owned_(given_outputs_.size()) {}

StatusOr<std::unique_ptr<Context>> Context::Create(const Program& program) {
  std::unique_ptr<Context> context(new Context(program));
  FUSEC_RT_ASSIGN(context->executor_, program.device().NewExecutor());
  return context;
}

Context::~Context() {
  executor_.reset();  // waits for runs that still write to the outputs
  for (const OwnedOutput& output : owned_) {
    if (output.memory) program_.device().FreeHost(output.memory);
  }
}

Status Context::BindInput(int i, const void* data, std::span<const int64_t> dims, bool on_device) {
  const TensorSignature& input = program_.manifest().inputs[i];
  if (on_device && !program_.device().has_device_memory()) {
    return Fail(FUSEC_BAD_INPUT, "input \"", input.name,
                "\" is device memory, but the program runs on ", program_.device().name());
  }
  inputs_[i] = {const_cast<void*>(data), 0, on_device};
  input_is_bound_[i] = true;
  inputs_are_of_run_ = false;
  if (!std::equal(dims.begin(), dims.end(), input_dims_[i].begin(), input_dims_[i].end())) {
    input_dims_[i].assign(dims.begin(), dims.end());
    dims_are_current_ = false;
  }
  return {};
}

Status Context::BindOutput(int i, void* data, size_t bytes, bool on_device) {
  if (on_device && !program_.device().has_device_memory()) {
    return Fail(FUSEC_BAD_INPUT, "output \"", program_.manifest().outputs[i].name,
                "\" is device memory, but the program runs on ", program_.device().name());
  }
  given_outputs_[i] = {data, bytes, on_device};
  output_is_given_[i] = data != nullptr || bytes != 0;
  return {};
}

Status Context::UpdateDims() {
  for (size_t i = 0; i < input_is_bound_.size(); ++i) {
    if (input_is_bound_[i]) continue;
    return Fail(FUSEC_BAD_INPUT, "input \"", program_.manifest().inputs[i].name, "\" is not bound");
  }
  if (dims_are_current_) return {};
  const Manifest& manifest = program_.manifest();
  FUSEC_RT_ASSIGN(auto symbols, BindSymbols(manifest, input_dims_));
  if (dims_version_ == 0 || symbols != symbols_) {
    FUSEC_RT_TRY(UpdateSizes(symbols));
    symbols_ = std::move(symbols);
    ++dims_version_;
  }
  dims_are_current_ = true;
  return {};
}

Status Context::UpdateSizes(std::span<const int64_t> symbols) {
  const Manifest& manifest = program_.manifest();
  if (IsEmptyRun(manifest, symbols)) {
    std::vector<int64_t> buffer_bytes(manifest.buffers.size());
    for (const TensorSignature& input : manifest.inputs) {
      FUSEC_RT_ASSIGN(buffer_bytes[input.buffer], TensorBytes(input, symbols));
    }
    for (size_t i = 0; i < manifest.output_count(); ++i) {
      const TensorSignature& output = manifest.outputs[i];
      FUSEC_RT_ASSIGN(const int64_t bytes, TensorBytes(output, symbols));
      if (bytes == 0) continue;
      return Fail(FUSEC_BAD_INPUT, "a dim is 0, but output \"", output.name,
                  "\" is not empty then");
    }
    buffer_bytes_ = std::move(buffer_bytes);
    is_empty_run_ = true;
    return {};
  }
  FUSEC_RT_ASSIGN(auto buffer_bytes, BufferBytes(manifest, symbols));
  const Target& target = program_.device().target();
  FUSEC_RT_TRY(CheckSignatureSizes(manifest, symbols, buffer_bytes));
  FUSEC_RT_TRY(CheckRunOrder(manifest, target.steps, symbols));
  FUSEC_RT_TRY(CheckRoomForResults(manifest, target, symbols, buffer_bytes));
  FUSEC_RT_ASSIGN(arena_, PackArena(manifest, target, buffer_bytes));
  buffer_bytes_ = std::move(buffer_bytes);
  is_empty_run_ = false;
  return {};
}

StatusOr<std::vector<int64_t>> Context::OutputDims(int i) {
  return run_dims_are_true_ && inputs_are_of_run_ ? run_dims_[i] : OutputBounds(i);
}

StatusOr<std::vector<int64_t>> Context::OutputBounds(int i) {
  FUSEC_RT_TRY(UpdateDims());
  std::vector<int64_t> dims;
  for (const DimExpression& dim : program_.manifest().outputs[i].shape) {
    FUSEC_RT_ASSIGN(dims.emplace_back(), dim.Evaluate(symbols_));
  }
  return dims;
}

StatusOr<std::span<const int64_t>> Context::SymbolValues() {
  FUSEC_RT_TRY(UpdateDims());
  return std::span<const int64_t>(symbols_);
}

// Prepares run_dims_ for a run that is about to begin.
Status Context::NoteRunDims() {
  if (!program_.manifest().has_run_time_sizes) return {};
  run_dims_are_true_ = is_empty_run_;  // an empty run has no run-time dims above 0
  run_dims_.resize(program_.manifest().output_count());
  for (size_t i = 0; i < run_dims_.size(); ++i) {
    FUSEC_RT_ASSIGN(run_dims_[i], OutputBounds(static_cast<int>(i)));
  }
  inputs_are_of_run_ = true;
  return {};
}

StatusOr<RunBindings> Context::Prepare() {
  FUSEC_RT_TRY(UpdateDims());
  const Manifest& manifest = program_.manifest();
  has_result_ = false;
  FUSEC_RT_TRY(NoteRunDims());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    inputs_[i].bytes = static_cast<size_t>(buffer_bytes_[manifest.inputs[i].buffer]);
    if (inputs_[i].data || inputs_[i].bytes == 0) continue;
    return Fail(FUSEC_BAD_INPUT, "input \"", manifest.inputs[i].name, "\" is null, expected ",
                inputs_[i].bytes, " bytes");
  }
  for (size_t i = 0; i < run_outputs_.size(); ++i) {
    const auto bytes = static_cast<size_t>(buffer_bytes_[manifest.outputs[i].buffer]);
    if (output_is_given_[i]) {
      const TensorBinding& given = given_outputs_[i];
      if (given.bytes < bytes || (!given.data && bytes > 0)) {
        return Fail(FUSEC_BAD_INPUT, "output \"", manifest.outputs[i].name, "\" has ", bytes,
                    " bytes, but room for ", given.data ? given.bytes : 0, " was bound");
      }
      run_outputs_[i] = {given.data, bytes, given.on_device};
      continue;
    }
    if (!owned_[i].memory || owned_[i].capacity < bytes) {
      executor_->FinishEarlier();  // an earlier run may still be writing into it
      if (owned_[i].memory) program_.device().FreeHost(owned_[i].memory);
      owned_[i] = {};
      FUSEC_RT_ASSIGN(owned_[i].memory, program_.device().AllocateHost(bytes));
      owned_[i].capacity = bytes;
    }
    run_outputs_[i] = {owned_[i].memory, bytes, false};
  }
  FUSEC_RT_TRY(CheckOutputsInPlace());
  return RunBindings{symbols_, dims_version_, buffer_bytes_, &arena_, inputs_, run_outputs_};
}

// Checks that an output in place begins where its input begins, if they share memory at all.
Status Context::CheckOutputsInPlace() const {
  const Manifest& manifest = program_.manifest();
  for (size_t i = 0; i < run_outputs_.size(); ++i) {
    const int in_place_of = manifest.InputInPlaceOf(i);
    if (in_place_of < 0) continue;
    const TensorBinding& bound = inputs_[in_place_of];
    const auto output = reinterpret_cast<uintptr_t>(run_outputs_[i].data),
               input = reinterpret_cast<uintptr_t>(bound.data);
    const uintptr_t distance = output > input ? output - input : input - output;
    if (distance == 0 || distance >= bound.bytes) continue;
    return Fail(FUSEC_BAD_INPUT, "the memory of output \"", manifest.outputs[i].name, "\" begins ",
                distance, " bytes away from that of input \"", manifest.inputs[in_place_of].name,
                "\", expected the same or separate memory");
  }
  return {};
}

// Reads the actual sizes after a run has ended; they are in host memory of the context.
Status Context::ReadRunTimeSizes() {
  const Manifest& manifest = program_.manifest();
  if (!manifest.has_run_time_sizes || run_dims_are_true_) return {};
  const auto* sizes = static_cast<const int64_t*>(run_outputs_.back().data);
  for (size_t i = 0; i < run_dims_.size(); ++i) {
    FUSEC_RT_ASSIGN(run_dims_[i], TrueDims(manifest.outputs[i], run_dims_[i], sizes));
  }
  run_dims_are_true_ = true;
  return {};
}

Status Context::Run() {
  FUSEC_RT_ASSIGN(const RunBindings bindings, Prepare());
  if (!is_empty_run_) FUSEC_RT_TRY(executor_->Run(bindings));
  FUSEC_RT_TRY(ReadRunTimeSizes());
  has_result_ = true;
  return {};
}

Status Context::RunAsync(void* stream) {
  FUSEC_RT_ASSIGN(const RunBindings bindings, Prepare());
  if (!is_empty_run_) FUSEC_RT_TRY(executor_->RunAsync(bindings, stream));
  if (!program_.device().has_device_memory()) FUSEC_RT_TRY(ReadRunTimeSizes());  // it has ended
  has_result_ = true;
  return {};
}

Status Context::Synchronize() {
  auto status = executor_->Synchronize();
  if (status && has_result_) status = ReadRunTimeSizes();
  if (!status) has_result_ = false;
  return status;
}

StatusOr<std::vector<double>> Context::MeasureRuns(int count) {
  FUSEC_RT_ASSIGN(const RunBindings bindings, Prepare());
  if (is_empty_run_)
    return Fail(FUSEC_BAD_INPUT, "the batch is empty: there is nothing to measure");
  return executor_->MeasureRuns(bindings, count);
}

TensorBinding Context::GetOutput(int i) const {
  // Whose memory it is follows from the run, and from what is bound since.
  const bool is_owned = !output_is_given_[i] && run_outputs_[i].data == owned_[i].memory;
  if (!has_result_ || !is_owned) return TensorBinding();
  TensorBinding result = run_outputs_[i];
  if (const TensorSignature& output = program_.manifest().outputs[i]; !output.sizes.empty()) {
    if (!run_dims_are_true_) return TensorBinding();  // the run may not have ended
    result.bytes = static_cast<size_t>(DtypeBytes(output.dtype));
    for (const int64_t dim : run_dims_[i]) result.bytes *= static_cast<size_t>(dim);
  }
  return result;
}

}  // namespace fusec::runtime
