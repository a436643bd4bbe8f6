#include "tests/gpu/random_runs.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace fusec::runtime {
namespace {

constexpr size_t kClients = 3, kStreams = 2;
constexpr size_t kMostMemory = 24;  // most tensors in memory
constexpr size_t kMostWaiting = 4;  // most runs in flight of a context
constexpr float kUnwritten = -7;

// Integers whose sums are exact in f32.
float Value(size_t i) { return static_cast<float>(i % 1000); }

constexpr char kKernelsBegin[] = R"(#if __CUDA_ARCH__ >= 900
#define WAIT()                                                   \
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); \
  asm volatile("griddepcontrol.wait;" ::: "memory")
#endif
)";
constexpr char kFew[] = R"(
extern "C" __global__ void __cluster_dims__(8)
k_few(const float* x, const float* z, const float* weights, float* sum, int batch) {
  WAIT();
  const int i = blockIdx.x;
  if (i < batch && threadIdx.x == 0) sum[i] = x[i] + z[i] + weights[i % 4];
}
)";
constexpr char kMany[] = R"(
extern "C" __global__ void
k_many(const float* x, const float* z, const float* weights, float* sum, int batch) {
  WAIT();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < batch) sum[i] = x[i] + z[i] + weights[i % 4];
}
)";
constexpr char kCopy[] = R"(
extern "C" __global__ void k_copy(const float* sum, float* y, float* twice, int batch) {
  WAIT();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= batch) return;
  y[i] = sum[i];
  twice[i] = 2 * sum[i];
}
)";

}  // namespace

// Memory of some kind for floats; host memory may begin at any address.
class RandomRuns::Floats {
 public:
  static StatusOr<std::unique_ptr<Floats>> Make(Program& program, const CudaContext& gpu, Kind kind,
                                                size_t count, size_t skipped) {
    std::unique_ptr<Floats> made(new Floats(program, gpu, kind, count));
    const size_t bytes = (count + skipped) * sizeof(float);
    if (kind == Kind::kDevice) {
      FUSEC_RT_ASSIGN(made->device_, AllocateDevice(gpu, bytes, "a test"));
      return made;
    }
    if (kind == Kind::kOfTheProgram) {
      FUSEC_RT_ASSIGN(made->of_the_program_, program.device().AllocateHost(bytes));
      made->host_ = static_cast<float*>(made->of_the_program_);
    } else if (kind == Kind::kPageLocked) {
      FUSEC_RT_ASSIGN(made->page_locked_, AllocatePinned(gpu, bytes, "a test"));
      made->host_ = static_cast<float*>(made->page_locked_.get());
    } else {
      made->pageable_.resize(count + skipped);
      made->host_ = made->pageable_.data();
    }
    if (made->host_ != nullptr) made->host_ += skipped;
    return made;
  }
  ~Floats() {
    if (of_the_program_ != nullptr) program_.device().FreeHost(of_the_program_);
  }
  Floats(const Floats&) = delete;

  Kind kind() const { return kind_; }
  size_t count() const { return count_; }
  bool on_device() const { return kind_ == Kind::kDevice; }
  void* data() const { return on_device() ? reinterpret_cast<void*>(device_.get()) : host_; }

  Status Write(const std::vector<float>& values) const {
    if (!on_device()) {
      std::copy(values.begin(), values.end(), host_);
      return {};
    }
    if (values.empty()) return {};
    FUSEC_RT_TRY(FUSEC_CUDA(gpu_, "a test", cuMemcpyHtoDAsync, device_.get(), values.data(),
                            values.size() * sizeof(float), nullptr));
    return FUSEC_CUDA(gpu_, "a test", cuStreamSynchronize, nullptr);
  }
  StatusOr<std::vector<float>> Read(size_t count) const {
    std::vector<float> values(count);
    if (!on_device()) {
      std::copy_n(host_, count, values.begin());
      return values;
    }
    if (count == 0) return values;
    FUSEC_RT_TRY(FUSEC_CUDA(gpu_, "a test", cuMemcpyDtoHAsync, values.data(), device_.get(),
                            count * sizeof(float), nullptr));
    FUSEC_RT_TRY(FUSEC_CUDA(gpu_, "a test", cuStreamSynchronize, nullptr));
    return values;
  }

  bool is_in_use = false;  // used by a run that was not waited for

 private:
  Floats(Program& program, const CudaContext& gpu, Kind kind, size_t count)
      : program_(program), gpu_(gpu), kind_(kind), count_(count) {}
  Program& program_;
  const CudaContext& gpu_;
  const Kind kind_;
  const size_t count_;
  std::vector<float> pageable_;
  void* of_the_program_ = nullptr;
  PinnedMemory page_locked_;
  DeviceMemory device_;
  float* host_ = nullptr;
};

void RandomRuns::AddModel(HandMadeArtifact& artifact) {
  artifact.Symbol("batch", 0, 1 << 20);
  const int x = artifact.Input("x", FUSEC_F32, {"batch"});
  const int z = artifact.Input("z", FUSEC_F32, {"batch"});
  const int weights = artifact.Constant("weights", FUSEC_F32, std::size(kWeights), kWeights);
  const int sum = artifact.Arena("sum", FUSEC_F32, "batch");
  const int y = artifact.Output("y", FUSEC_F32, {"batch"});
  const int twice = artifact.Output("twice", FUSEC_F32, {"batch"});
  const auto name = [](int buffer) { return "b" + std::to_string(buffer); };
  const auto add = [&](const char* kernel, const char* source, const char* blocks, int64_t from,
                       int64_t to) {
    artifact.Kernel({kernel,
                     Text(kKernelsBegin, source),
                     blocks,
                     32,
                     0,
                     {name(x), name(z), name(weights), name(sum), "i:batch"},
                     {x, z, weights},
                     {sum},
                     {"batch", from, to},
                     true});
  };
  constexpr const char* kBlocks = "floordiv(batch + 31, 32)";
  add("k_few", kFew, "8", 0, 8);
  add("k_many", kMany, kBlocks, 9, 1 << 20);
  artifact.Kernel({"k_copy",
                   Text(kKernelsBegin, kCopy),
                   kBlocks,
                   32,
                   0,
                   {name(sum), name(y), name(twice), "i:batch"},
                   {sum},
                   {y, twice},
                   {},
                   true});
}

RandomRuns::RandomRuns(Program& program, const CudaContext& gpu, unsigned seed,
                       std::function<void(bool)> calls_runtime)
    : program_(program),
      gpu_(gpu),
      scope_(gpu),
      calls_runtime_(std::move(calls_runtime)),
      random_(seed),
      clients_(kClients) {}

RandomRuns::~RandomRuns() { clients_.clear(); }  // before the memory that their runs use

std::string RandomRuns::Take(int steps) {
  for (int step = 0; step < steps; ++step) {
    if (const Status right = Step(); !right)
      return Text("step ", step, ": ", right.error().message);
  }
  for (Client& client : clients_) {
    if (const Status right = Wait(client); !right)
      return Text("at the end: ", right.error().message);
  }
  return "";
}

// Batches around the sizes at which the runtime changes its way of copying (tensor_places.h).
int64_t RandomRuns::Batch() {
  constexpr int64_t kBatches[] = {0,     1,     3,     8,     9,     100,   2048,  4096,  8192,
                                  16384, 16385, 20000, 32768, 65535, 65536, 70000, 90000, 131072};
  return kBatches[Below(std::size(kBatches))];
}

// Recently used or new memory. Freed memory makes its address available again.
RandomRuns::Floats* RandomRuns::TakeMemory(Kind kind, int64_t batch) {
  const auto count = static_cast<size_t>(batch);
  if (!OneIn(3)) {
    for (const auto& one : memory_) {
      if (!one->is_in_use && one->kind() == kind && one->count() >= count) return one.get();
    }
  }
  while (memory_.size() >= kMostMemory) {
    const auto unused = std::find_if(memory_.begin(), memory_.end(),
                                     [](const auto& one) { return !one->is_in_use; });
    if (unused == memory_.end()) break;
    memory_.erase(unused);
  }
  const size_t skipped = kind != Kind::kDevice && OneIn(4) ? Below(4) : 0;
  auto made = Floats::Make(program_, gpu_, kind, count, skipped);
  if (!made) return nullptr;
  std::shuffle(memory_.begin(), memory_.end(), random_);
  return memory_.emplace_back(std::move(*made)).get();
}

Status RandomRuns::Bind(Client& client, Run& run, bool may_keep) {
  const auto count = static_cast<size_t>(run.batch);
  const bool is_in_place = OneIn(4);
  const auto take = [&]() -> StatusOr<Floats*> {
    const Kind kind = is_in_place ? Kind::kDevice : static_cast<Kind>(Below(kKinds));
    Floats* memory = TakeMemory(kind, run.batch);
    if (memory == nullptr) return Fail(FUSEC_NO_DEVICE, "no memory for a tensor");
    memory->is_in_use = true;
    run.memory.push_back(memory);
    return memory;
  };
  std::vector<float> values(count);
  for (const int input : {0, 1}) {
    size_t& from = input == 0 ? run.x_from : run.z_from;
    from = Below(1000);
    for (size_t i = 0; i < count; ++i) values[i] = Value(from + i);
    FUSEC_RT_ASSIGN(const Floats* memory, take());
    FUSEC_RT_TRY(memory->Write(values));
    FUSEC_RT_TRY(
        client.context->BindInput(input, memory->data(), {&run.batch, 1}, memory->on_device()));
  }
  values.assign(count, kUnwritten);
  for (const int output : {0, 1}) {
    if (may_keep && OneIn(3)) {
      FUSEC_RT_TRY(client.context->BindOutput(output, nullptr, 0, false));
      run.outputs.push_back(nullptr);
      continue;
    }
    FUSEC_RT_ASSIGN(Floats * memory, take());
    FUSEC_RT_TRY(memory->Write(values));
    FUSEC_RT_TRY(client.context->BindOutput(output, memory->data(), count * sizeof(float),
                                            memory->on_device()));
    run.outputs.push_back(memory);
  }
  return {};
}

Status RandomRuns::Step() {
  if (streams_.empty()) {
    for (size_t i = 0; i < kStreams; ++i) {
      FUSEC_RT_ASSIGN(streams_.emplace_back(), CreateStream(gpu_));
    }
  }
  Client& client = clients_[Below(kClients)];
  if (!client.context || OneIn(40)) {
    FUSEC_RT_TRY(Wait(client));
    client.context.reset();
    FUSEC_RT_ASSIGN(const bool created, Succeeds([&]() -> Status {
                      FUSEC_RT_ASSIGN(client.context, Context::Create(program_));
                      return {};
                    }));
    if (!created) return {};
  }
  const bool waits = OneIn(2);
  Run run;
  run.batch = Batch();
  FUSEC_RT_TRY(Bind(client, run, waits));
  const bool is_async = !waits || OneIn(2);
  void* const streams[] = {nullptr, client.context->executor().stream(), streams_[0].get(),
                           streams_[1].get()};
  FUSEC_RT_ASSIGN(const bool runs, Succeeds([&] {
                    return is_async ? client.context->RunAsync(streams[Below(std::size(streams))])
                                    : client.context->Run();
                  }));
  // Pageable inputs have been read; after an error the memory is not used any more.
  const std::vector<float> others(static_cast<size_t>(run.batch), kUnwritten);
  for (size_t i = 0; i < run.memory.size(); ++i) {
    Floats& memory = *run.memory[i];
    const bool is_input = i < 2;
    if (!runs || (is_async && is_input && memory.kind() == Kind::kPageable))
      FUSEC_RT_TRY(memory.Write(others));
    if (!runs) memory.is_in_use = false;
  }
  if (!runs) return OneIn(2) ? Wait(client) : Status();
  client.runs.push_back(std::move(run));
  return waits || client.runs.size() >= kMostWaiting ? Wait(client) : Status();
}

template <class Call>
StatusOr<bool> RandomRuns::Succeeds(const Call& call) {
  if (calls_runtime_) calls_runtime_(true);
  const Status status = call();
  if (calls_runtime_) calls_runtime_(false);
  if (status) return true;
  const bool may_fail = calls_runtime_ && status.error().code == FUSEC_NO_DEVICE;
  if (may_fail) return false;
  return tl::unexpected(status.error());
}

Status RandomRuns::Wait(Client& client) {
  if (!client.context) return {};
  FUSEC_RT_TRY(client.context->Synchronize());
  for (const Run& run : client.runs) {
    FUSEC_RT_TRY(CheckAnswers(client, run));
    ++right_runs_;
    for (Floats* memory : run.memory) memory->is_in_use = false;
  }
  client.runs.clear();
  return {};
}

Status RandomRuns::CheckAnswers(const Client& client, const Run& run) const {
  const auto count = static_cast<size_t>(run.batch);
  for (const int output : {0, 1}) {
    std::vector<float> found(count);
    if (const Floats* memory = run.outputs[static_cast<size_t>(output)]) {
      FUSEC_RT_ASSIGN(found, memory->Read(count));
    } else {
      std::copy_n(static_cast<const float*>(client.context->GetOutput(output).data), count,
                  found.begin());
    }
    for (size_t i = 0; i < count; ++i) {
      const float sum = Value(run.x_from + i) + Value(run.z_from + i) + kWeights[i % 4];
      const float expected = static_cast<float>(output + 1) * sum;
      if (found[i] == expected) continue;
      return Fail(FUSEC_BAD_INPUT, "batch ", run.batch, ", output ", output, ", element ", i,
                  " is ", std::to_string(found[i]), ", expected ", std::to_string(expected));
    }
  }
  return {};
}

}  // namespace fusec::runtime
