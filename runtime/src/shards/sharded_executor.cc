#include "runtime/src/shards/sharded_executor.h"

#include "runtime/src/artifact/dtype.h"

namespace fusec::runtime {
namespace {

// Prefixes the error of a part with the part's name.
Status InPart(const ProgramPart& part, const Status& status) {
  if (status) return {};
  return Fail(status.error().code, part.step->name, ": ", status.error().message);
}

int64_t BytesOf(fusec_dtype dtype, std::span<const int64_t> dims) {
  int64_t bytes = DtypeBytes(dtype);
  for (const int64_t dim : dims) {
    if (dim < 0 || __builtin_mul_overflow(bytes, dim, &bytes)) return -1;
  }
  return bytes;
}

}  // namespace

StatusOr<std::unique_ptr<ShardedExecutor>> ShardedExecutor::Create(ShardedProgram& program) {
  std::unique_ptr<ShardedExecutor> executor(new ShardedExecutor(program));
  std::vector<void*> streams;
  for (const ProgramPart& part : program.parts) {
    FUSEC_RT_ASSIGN(auto context, Context::Create(*part.program));
    streams.push_back(context->executor().stream());
    executor->contexts_.push_back(std::move(context));
  }
  if (program.ordinals.empty()) {
    executor->links_ = CreateCpuLinks();
  } else {
    FUSEC_RT_ASSIGN(executor->links_, CreateCudaLinks(program.ordinals, std::move(streams)));
  }
  return executor;
}

ShardedExecutor::~ShardedExecutor() { contexts_.clear(); }

size_t ShardedExecutor::scratch_bytes() const {
  size_t bytes = links_->device_bytes();
  for (const auto& context : contexts_) bytes += context->executor().scratch_bytes();
  return bytes;
}

// The memory in which a part finds a tensor of the whole program.
StatusOr<TensorBinding> ShardedExecutor::Find(size_t part, int buffer, const RunBindings& bindings,
                                              std::byte* arena) const {
  const Manifest& manifest = program_.artifact.manifest();
  const auto bytes = static_cast<size_t>(bindings.buffer_bytes[buffer]);
  if (manifest.buffers[buffer].kind == BufferKind::kArena)
    return TensorBinding{arena + bindings.arena->offsets[buffer], bytes, links_->on_device()};
  const bool is_input = manifest.buffers[buffer].kind == BufferKind::kInput;
  const auto& tensors = is_input ? manifest.inputs : manifest.outputs;
  size_t number = 0;
  while (tensors[number].buffer != buffer) ++number;
  const TensorBinding& binding = is_input ? bindings.inputs[number] : bindings.outputs[number];
  if (binding.on_device && !links_->CanReadHome(part)) {
    return Fail(FUSEC_BAD_INPUT, program_.parts[part].step->name, " runs on ",
                program_.parts[part].program->device().name(),
                ", which cannot reach the memory of ",
                program_.parts.back().program->device().name(), " where \"", tensors[number].name,
                "\" lies: expected host memory");
  }
  return binding;
}

Status ShardedExecutor::BindPart(size_t number, const RunBindings& bindings, std::byte* arena) {
  const ProgramPart& part = program_.parts[number];
  const Manifest& manifest = part.program->manifest();
  Context& context = *contexts_[number];
  std::vector<int64_t> symbols;
  for (const int symbol : part.symbols) symbols.push_back(bindings.symbols[symbol]);
  for (size_t i = 0; i < manifest.inputs.size(); ++i) {
    std::vector<int64_t> dims;
    for (const DimExpression& dim : manifest.inputs[i].shape) {
      FUSEC_RT_ASSIGN(dims.emplace_back(), dim.Evaluate(symbols));
    }
    FUSEC_RT_ASSIGN(const TensorBinding from, Find(number, part.step->inputs[i], bindings, arena));
    if (BytesOf(manifest.inputs[i].dtype, dims) != static_cast<int64_t>(from.bytes)) {
      return Fail(FUSEC_BAD_ARTIFACT, part.step->name, ": input \"", manifest.inputs[i].name,
                  "\" has other sizes than in the whole program");
    }
    FUSEC_RT_TRY(context.BindInput(static_cast<int>(i), from.data, dims, from.on_device));
  }
  for (size_t i = 0; i < manifest.outputs.size(); ++i) {
    FUSEC_RT_ASSIGN(const TensorBinding to, Find(number, part.step->outputs[i], bindings, arena));
    FUSEC_RT_TRY(context.BindOutput(static_cast<int>(i), to.data, to.bytes, to.on_device));
  }
  return {};
}

Status ShardedExecutor::Bind(const RunBindings& bindings) {
  if (bindings.arena->bytes > arena_bytes_ || arena_ == nullptr) {
    FinishEarlier();
    arena_bytes_ = 0;
    FUSEC_RT_ASSIGN(arena_, links_->Reserve(static_cast<size_t>(bindings.arena->bytes)));
    arena_bytes_ = bindings.arena->bytes;
  }
  for (size_t part = 0; part < contexts_.size(); ++part)
    FUSEC_RT_TRY(BindPart(part, bindings, arena_));
  return {};
}

Status ShardedExecutor::Start(const RunBindings& bindings, void* stream) {
  FUSEC_RT_TRY(Bind(bindings));
  const Gate::Inside inside(program_.runs);
  if (!program_.mixed_weights.empty())
    return Fail(FUSEC_BAD_ARTIFACT,
                "the parts have weights of two versions, because an update failed and the old "
                "weights could not be loaded again (",
                program_.mixed_weights, "); update the weights again");
  FUSEC_RT_TRY(links_->Begin(stream));
  const size_t last = contexts_.size() - 1;
  for (size_t part = 0; part < last; ++part)
    FUSEC_RT_TRY(
        InPart(program_.parts[part], contexts_[part]->RunAsync(links_->StreamOf(part, stream))));
  FUSEC_RT_TRY(links_->Join(stream));
  FUSEC_RT_TRY(InPart(program_.parts[last], contexts_[last]->RunAsync(stream)));
  return links_->End(stream);
}

Status ShardedExecutor::Run(const RunBindings& bindings) {
  const Status started = Start(bindings, stream());
  const Status ended = Synchronize();
  return started ? ended : started;
}

Status ShardedExecutor::RunAsync(const RunBindings& bindings, void* stream) {
  Status started = Start(bindings, stream);
  if (!started) FinishEarlier();
  return started;
}

// Returns the error of the first part that has one; errors of later parts may be consequences of
// it.
Status ShardedExecutor::Synchronize() {
  Status result;
  for (size_t part = 0; part < contexts_.size(); ++part) {
    Status status = InPart(program_.parts[part], contexts_[part]->Synchronize());
    if (result && !status) result = std::move(status);
  }
  return result;
}

void ShardedExecutor::FinishEarlier() {
  for (const auto& context : contexts_) context->executor().FinishEarlier();
}

StatusOr<std::vector<double>> ShardedExecutor::Measure(std::span<const RunBindings> sets,
                                                       int samples, int replays) {
  const auto start = [this](const RunBindings& bindings, void* on) { return Start(bindings, on); };
  auto times = links_->Measure(sets, samples, replays, stream(), start);
  const Status ended = Synchronize();
  if (times && !ended) return tl::unexpected<RuntimeError>(ended.error());
  return times;
}

StatusOr<std::vector<double>> ShardedExecutor::MeasureRuns(const RunBindings& bindings, int count) {
  return Measure({&bindings, 1}, count, 1);
}

StatusOr<std::vector<double>> ShardedExecutor::MeasureSteps(const RunBindings& bindings) {
  FUSEC_RT_TRY(Run(bindings));  // so that the inputs of every part are computed
  std::vector<double> times_us;
  for (size_t part = 0; part < contexts_.size(); ++part) {
    auto times = contexts_[part]->MeasureRuns(1);
    if (!times)
      return Fail(times.error().code, program_.parts[part].step->name, ": ", times.error().message);
    times_us.push_back(times->front());
  }
  return times_us;
}

}  // namespace fusec::runtime
