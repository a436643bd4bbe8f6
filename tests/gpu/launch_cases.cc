// Measures the host's cost of running a program again, with the same dims and addresses and with others.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "runtime/src/bench.h"
#include "tests/gpu/smoke_cases.h"

namespace fusec::runtime {
namespace {

constexpr int kSteps = 8;
constexpr int64_t kColumns = 64, kMostRows = 128;
// The same as in codegen_templates/device/dependent_launch.cuh.
constexpr char kWait[] =
    "  asm volatile(\"griddepcontrol.launch_dependents;\" ::: \"memory\");\n"
    "  asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n";

bool HasDependentLaunch() { return gpu->capability() >= 90; }

// y = x + 8 for f32[batch, 64], where all elements are equal, computed by eight kernels; each has two variants, chosen by the batch. Every
// block reads what other blocks wrote.
void ChainModel(HandMadeArtifact& artifact, bool dependent_launch) {
  artifact.Symbol("batch", 1, kMostRows);
  int from = artifact.Input("x", FUSEC_F32, {"batch", "64"});
  for (int step = 0; step < kSteps; ++step) {
    const int to = step + 1 < kSteps
                       ? artifact.Arena("t" + std::to_string(step), FUSEC_F32, "batch*64")
                       : artifact.Output("y", FUSEC_F32, {"batch", "64"});
    for (const char* kind : {"few", "many"}) {
      const bool few = std::string(kind) == "few";
      const std::string name = "k" + std::to_string(step) + "_" + kind;
      const std::string source = "extern \"C\" __global__ void " + name +
                                 "(const float* x, float* y, int count) {\n" +
                                 (dependent_launch ? kWait : "") +
                                 "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                                 "  if (i < count) y[i] = x[(i + 4099) % count] + 1;\n"
                                 "}\n";
      artifact.Kernel({name,
                       source,
                       few ? "batch" : "floordiv(batch*64 + 255, 256)",
                       few ? 64 : 256,
                       0,
                       {"b" + std::to_string(from), "b" + std::to_string(to), "i:batch*64"},
                       {from},
                       {to},
                       {"batch", few ? 0 : 17, few ? 16 : kMostRows},
                       dependent_launch});
    }
    from = to;
  }
}

// While an object exists, counts driver calls that a change of dims must not make.
class CountedCalls {
 public:
  CountedCalls() : driver_(const_cast<CudaDriver&>(gpu->driver())), real_(driver_) {
    current_ = this;
    driver_.cuGraphInstantiate = [](CUgraphExec* made, CUgraph graph, unsigned long long flags) {
      ++current_->instantiated;
      return current_->real_.cuGraphInstantiate(made, graph, flags);
    };
    driver_.cuMemAlloc = [](CUdeviceptr* memory, size_t bytes) {
      ++current_->allocated;
      return current_->real_.cuMemAlloc(memory, bytes);
    };
  }
  ~CountedCalls() { driver_ = real_; }
  CountedCalls(const CountedCalls&) = delete;
  CountedCalls& operator=(const CountedCalls&) = delete;

  int instantiated = 0, allocated = 0;

 private:
  static inline CountedCalls* current_ = nullptr;
  CudaDriver& driver_;
  const CudaDriver real_;
};

struct Tensor {
  DeviceMemory memory;
  void* data() const { return reinterpret_cast<void*>(memory.get()); }
};

StatusOr<Tensor> MakeTensor(float value) {
  const std::vector<float> values(kMostRows * kColumns, value);
  FUSEC_RT_ASSIGN(DeviceMemory memory, AllocateDevice(*gpu, values.size() * 4, "a test"));
  gpu->driver().cuMemcpyHtoDAsync(memory.get(), values.data(), values.size() * 4, nullptr);
  gpu->driver().cuStreamSynchronize(nullptr);
  return Tensor{std::move(memory)};
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// The microseconds until the call has returned; waiting for the started work is not included.
double CallUs(Session& session, const Tensor& x, const Tensor& y, int64_t batch) {
  const auto begin = std::chrono::steady_clock::now();
  session.Input(0, x.data(), {batch, kColumns}, true);
  session.BindOutput(0, y.data(), static_cast<size_t>(batch * kColumns * 4), true);
  session.RunAsync(nullptr);
  const auto end = std::chrono::steady_clock::now();
  session.Synchronize();
  return std::chrono::duration<double, std::micro>(end - begin).count();
}

std::string CheckRows(const Tensor& y, float expected, int64_t batch) {
  std::vector<float> found(static_cast<size_t>(batch * kColumns));
  gpu->driver().cuMemcpyDtoHAsync(found.data(), y.memory.get(), found.size() * 4, nullptr);
  gpu->driver().cuStreamSynchronize(nullptr);
  for (const float value : found) {
    if (value != expected) return Text("batch ", batch, " gave ", std::to_string(value));
  }
  return "";
}

}  // namespace

std::string ChangingBatchCosts() {
  HandMadeArtifact artifact;
  ChainModel(artifact, HasDependentLaunch());
  Session session(artifact.Write(native, true));
  if (!session.ok()) return session.error();
  ScopedContext scope(*gpu);
  std::vector<Tensor> x;
  for (int i = 0; i < 8; ++i) {
    auto tensor = MakeTensor(static_cast<float>(i));
    if (!tensor) return tensor.error().message;
    x.push_back(std::move(*tensor));
  }
  auto y = MakeTensor(0);
  if (!y) return y.error().message;
  size_t free_before = 0, free_after = 0, total = 0;
  gpu->driver().cuMemGetInfo(&free_before, &total);
  const double first_us = CallUs(session, x[0], *y, kMostRows);
  gpu->driver().cuMemGetInfo(&free_after, &total);
  std::printf("       the first call: %.0f us, %.1f MiB of GPU memory\n", first_us,
              static_cast<double>(free_before - free_after) / (1 << 20));

  const CountedCalls counted;
  for (const int64_t batch : {1, 128, 1, 16, 17, 128, 1}) {
    CallUs(session, x[3], *y, batch);
    if (!session.ok()) return session.error();
    const std::string wrong = CheckRows(*y, 3 + kSteps, batch);
    if (!wrong.empty()) return wrong;
  }
  constexpr int kCalls = 300;
  std::vector<double> same, back, fresh, rotating;
  for (int i = 0; i < kCalls; ++i) same.push_back(CallUs(session, x[0], *y, 128));
  for (int i = 0; i < kCalls; ++i) back.push_back(CallUs(session, x[0], *y, i % 2 == 0 ? 1 : 128));
  for (int i = 0; i < kCalls; ++i) fresh.push_back(CallUs(session, x[0], *y, 1 + i % 100));
  for (int i = 0; i < kCalls; ++i)
    rotating.push_back(CallUs(session, x[static_cast<size_t>(i % 8)], *y, 1 + i % 3 * 50));
  if (!session.ok()) return session.error();
  if (GraphsAreOff()) return "";
  const double base = Median(same), extra_back = Median(back) - base,
               extra_fresh = Median(fresh) - base, extra_rotating = Median(rotating) - base;
  std::printf(
      "       host time of a call of %d kernels: %.1f us; back to a batch of late %+.1f us, "
      "another batch %+.1f us, 24 pairs of addresses and batch %+.1f us\n",
      kSteps, base, extra_back, extra_fresh, extra_rotating);
  if (counted.instantiated > 0 || counted.allocated > 0)
    return Text(counted.instantiated, " graphs were instantiated and ", counted.allocated,
                " allocations made for other batches");
  constexpr double kMostUs = 30;  // for 8 kernels; recently used dims and addresses cost only a look-up
  if (std::max({extra_back, extra_fresh, extra_rotating}) > kMostUs)
    return "a change takes over 30 us";
  return "";
}

std::string DependentLaunch() {
  double replay_us[2] = {};
  for (const bool dependent : {false, true}) {
    if (dependent && !HasDependentLaunch()) return "";
    HandMadeArtifact artifact;
    ChainModel(artifact, dependent);
    const auto program = Program::Load(artifact.Write(native, true), "cuda");
    if (!program) return program.error().message;
    const auto context = Context::Create(**program);
    if (!context) return context.error().message;
    for (const int64_t batch : {kMostRows, int64_t{1}, int64_t{100}, kMostRows}) {
      const int64_t dims[] = {batch, kColumns};
      for (int value = 0; value < 500; ++value) {
        const std::vector<float> x(static_cast<size_t>(batch * kColumns),
                                   static_cast<float>(value));
        if (const Status bound = (*context)->BindInput(0, x.data(), dims, false); !bound)
          return bound.error().message;
        if (const Status run = (*context)->Run(); !run) return run.error().message;
        const float* y = static_cast<const float*>((*context)->GetOutput(0).data);
        for (size_t i = 0; i < x.size(); ++i) {
          if (y[i] != x[i] + kSteps) return Text("batch ", batch, ", element ", i, " is wrong");
        }
      }
    }
    if (GraphsAreOff()) continue;
    Context* const contexts[] = {context->get()};
    const auto times = MeasureRotating(contexts, 9, 200);
    if (!times) return times.error().message;
    replay_us[dependent] = Median(*times);
  }
  std::printf("       %d small kernels: %.2f us a replay, %.2f us with dependent launches\n",
              kSteps, replay_us[0], replay_us[1]);
  return "";
}

// y = x + 1 for f32[batch], a block for a row, by kernels whose blocks come in clusters of 8, of 2
// or in none. Each says how many blocks its clusters have had.
std::string ChangingClusters() {
  if (gpu->capability() < 90) return "";
  constexpr struct {
    int cluster, from, to;
  } kKernels[] = {{1, 1, 3}, {8, 4, 10}, {2, 11, 20}, {1, 21, 100}};
  HandMadeArtifact artifact;
  artifact.Symbol("batch", 1, 100);
  const int x = artifact.Input("x", FUSEC_F32, {"batch"});
  const int y = artifact.Output("y", FUSEC_F32, {"batch"});
  const int clusters = artifact.Output("clusters", FUSEC_I32, {"batch"});
  for (const auto& [cluster, from, to] : kKernels) {
    const std::string size = std::to_string(cluster);
    const std::string name = "k_from_" + std::to_string(from);
    const std::string attribute = cluster > 1 ? "__cluster_dims__(" + size + ") " : "";
    const std::string source = "extern \"C\" __global__ void " + attribute + name +
                               "(const float* x, float* y, int* clusters, int count) {\n"
                               "  const int i = blockIdx.x;\n"
                               "  if (i >= count || threadIdx.x > 0) return;\n"
                               "  y[i] = x[i] + 1;\n"
                               "  asm(\"mov.u32 %0, %%cluster_nctaid.x;\" : \"=r\"(clusters[i]));\n"
                               "}\n";
    artifact.Kernel({name,
                     source,
                     "floordiv(batch + " + std::to_string(cluster - 1) + ", " + size + ")*" + size,
                     32,
                     0,
                     {"b0", "b1", "b2", "i:batch"},
                     {x},
                     {y, clusters},
                     {"batch", from, to}});
  }
  Session session(artifact.Write(native, true));
  std::vector<float> input(100);
  for (const int batch : {3, 7, 21, 19, 2, 10, 99, 11, 5, 23, 100, 1, 8, 27, 20, 3}) {
    for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(batch * 100 + i);
    session.Input(0, input.data(), {batch});
    session.Run();
    if (!session.ok()) return session.error();
    int expected = 0;
    for (const auto& kernel : kKernels) {
      if (batch >= kernel.from) expected = kernel.cluster;
    }
    for (int i = 0; i < batch; ++i) {
      const float found = session.OutputAs<float>(0)[i];
      const int cluster = session.OutputAs<int32_t>(1)[i];
      if (found != input[static_cast<size_t>(i)] + 1)
        return Text("batch ", batch, ", row ", i, " is ", std::to_string(found));
      if (cluster != expected)
        return Text("batch ", batch, ", row ", i, ": clusters of ", cluster, ", not ", expected);
    }
  }
  return "";
}

std::string ChangingProductsKeepsGraphs() {
  HandMadeArtifact artifact;
  artifact.Symbol("batch", 1, kMostRows);
  const std::vector<float> ones(static_cast<size_t>(kColumns * kColumns), 1.0f);
  const int x = artifact.Input("x", FUSEC_F32, {"batch", "64"});
  const int weights = artifact.Constant("w", FUSEC_F32, kColumns * kColumns, ones.data());
  const int y = artifact.Output("y", FUSEC_F32, {"batch", "64"});
  HandMadeArtifact::MatmulStep step;
  step.m = "batch", step.n = "64", step.k = "64";
  step.a = {x}, step.b = {weights}, step.d = {y};
  artifact.Matmul(step);
  Session session(artifact.Write(native, true));
  if (!session.ok()) return session.error();
  const CountedCalls counted;
  const std::vector<float> input(static_cast<size_t>(kMostRows * kColumns), 2.0f);
  for (int round = 0; round < 2; ++round) {
    for (int64_t batch = 1; batch <= kMostRows; ++batch) {
      session.Input(0, input.data(), {batch, kColumns});
      session.Run();
      if (!session.ok()) return session.error();
      for (const int64_t i : {int64_t{0}, batch * kColumns - 1}) {
        if (session.OutputAs<float>(0)[i] != 2 * kColumns) return Text("batch ", batch);
      }
    }
  }
  std::printf("       %d sizes of a product took %d executable graphs\n",
              static_cast<int>(kMostRows), counted.instantiated);
  return "";
}

}  // namespace fusec::runtime
