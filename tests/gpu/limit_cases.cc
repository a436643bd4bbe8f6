#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "runtime/src/bench.h"
#include "tests/gpu/smoke_cases.h"

namespace fusec::runtime {

namespace {

using MatmulStep = HandMadeArtifact::MatmulStep;

}  // namespace

constexpr char kReverse[] = R"(
extern "C" __global__ void k_reverse(const float* from, float* to) {
  extern __shared__ float buffer[];
  const int base = blockIdx.x * 32768;
  for (int i = threadIdx.x; i < 32768; i += blockDim.x) buffer[i] = from[base + i];
  __syncthreads();
  for (int i = threadIdx.x; i < 32768; i += blockDim.x) to[base + i] = buffer[32767 - i];
}
)";

// 128 KiB of dynamic shared memory, and weights that take many chunks.
std::string LargeWeights() {
  constexpr int64_t kBlocks = 1000, kCount = kBlocks * 32768;  // 131 MB
  std::vector<float> weights(kCount);
  for (int64_t i = 0; i < kCount; ++i)
    weights[static_cast<size_t>(i)] = static_cast<float>(i % 16777213);
  HandMadeArtifact artifact;
  artifact.Input("unused", FUSEC_F32, {"1"});
  artifact.Constant("small", FUSEC_F32, 3, weights.data());  // what follows begins behind it
  const int constant = artifact.Constant("weights", FUSEC_F32, kCount, weights.data());
  const int out = artifact.Output("reversed", FUSEC_F32, {std::to_string(kCount)});
  artifact.Kernel({"k_reverse",
                   kReverse,
                   std::to_string(kBlocks),
                   256,
                   131072,
                   {"b2", "b3"},
                   {constant},
                   {out}});
  Session session(artifact.Write(native, true));
  const float unused = 0;
  session.Input(0, &unused, {1});
  session.Run();
  if (!session.ok()) return session.error();
  const float* found = session.OutputAs<float>(0);
  for (int64_t i = 0; i < kCount; ++i) {
    if (found[i] != weights[static_cast<size_t>(i / 32768 * 32768 + 32767 - i % 32768)])
      return Text("element ", i);
  }
  return "";
}

// Loads 1 GiB of weights, which are in the page cache, with checksums, to the GPU.
std::string LoadingSpeed() {
  constexpr double kLeast = 3;  // GB/s
  const std::vector<float> weights(size_t{1} << 28, 1.0f);
  HandMadeArtifact artifact;
  AddModel(artifact);
  artifact.Constant("weights", FUSEC_F32, static_cast<int64_t>(weights.size()), weights.data());
  const std::string path = artifact.Write(native, true);
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    Session session(path);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    if (!session.ok()) return session.error();
    best = std::max(best, static_cast<double>(weights.size()) * 4 / 1e9 / seconds.count());
  }
  std::printf("       (%.1f GB/s)\n", best);
  return best > kLeast ? "" : "too slow";
}

// relu(x w1 + b1) w2 through the arena, with a growing and shrinking batch.
void MlpModel(HandMadeArtifact& artifact, int64_t max_batch) {
  std::vector<float> w1(16 * 32, 0.5f), b1(32, -20.0f), w2(32 * 8, 0.25f);
  artifact.Symbol("batch", 1, max_batch);
  const int x = artifact.Input("x", FUSEC_F32, {"batch", "16"});
  const int first = artifact.Constant("w1", FUSEC_F32, 16 * 32, w1.data());
  const int bias = artifact.Constant("b1", FUSEC_F32, 32, b1.data());
  const int second = artifact.Constant("w2", FUSEC_F32, 32 * 8, w2.data());
  const int hidden = artifact.Arena("hidden", FUSEC_F32, "batch*32");
  const int y = artifact.Output("y", FUSEC_F32, {"batch", "8"});
  MatmulStep step;
  step.m = "batch", step.n = "32", step.k = "16";
  step.a = {x}, step.b = {first}, step.d = {hidden}, step.bias = bias, step.activation = "relu";
  artifact.Matmul(step);
  step.n = "8", step.k = "32";
  step.a = {hidden}, step.b = {second}, step.d = {y}, step.bias = -1, step.activation = "none";
  artifact.Matmul(step);
}

std::string RunMlp(Session& session, int64_t batch) {
  std::vector<float> x(static_cast<size_t>(batch) * 16);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i / 16 % 8);
  session.Input(0, x.data(), {batch, 16});
  session.Run();
  if (!session.ok()) return session.error();
  for (int64_t i = 0; i < batch * 8; ++i) {
    const float sum = 8.0f * static_cast<float>(i / 8 % 8) - 20.0f;  // exact in any precision
    const float expected = 8.0f * (sum < 0 ? 0 : sum);
    if (session.OutputAs<float>(0)[i] != expected) {
      return Text("batch ", batch, ": element ", i, " is ",
                  std::to_string(session.OutputAs<float>(0)[i]), ", expected ",
                  std::to_string(expected));
    }
  }
  return "";
}

std::string ChangingDimsOfMatmuls() {
  HandMadeArtifact artifact;
  MlpModel(artifact, 4096);
  Session session(artifact.Write(native, true));
  for (const int64_t batch : {1, 128, 1, 4096, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 128, 1}) {
    std::string error = RunMlp(session, batch);
    if (!error.empty()) return error;
  }
  return "";
}

std::string OutOfMemory() {
  HandMadeArtifact artifact;
  MlpModel(artifact, int64_t{1} << 32);
  Session session(artifact.Write(native, true));
  if (!session.ok()) return session.error();
  Session other(session.program());
  std::string error = RunMlp(other, 5);
  // The memory is never accessed, since allocating the arena of 512 GiB fails first.
  ScopedContext scope(*gpu);
  auto allocated = AllocateDevice(*gpu, 64, "a test");
  if (!allocated) return allocated.error().message;
  void* memory = reinterpret_cast<void*>(allocated->get());
  session.Input(0, memory, {int64_t{1} << 32, 16}, true);
  session.BindOutput(0, memory, size_t{1} << 37, true);
  session.Run();
  if (session.status() != FUSEC_NO_DEVICE ||
      session.error().find("out of GPU memory") == std::string::npos) {
    return Text("status ", session.status(), ": ", session.error());
  }
  std::printf("       (%s)\n", session.error().c_str());
  session.Forget();
  session.BindOutput(0, nullptr, 0);
  if (error.empty()) error = RunMlp(session, 6);
  if (error.empty()) error = RunMlp(other, 7);
  return error;
}

std::string Measure() {
  HandMadeArtifact artifact;
  AddModel(artifact);
  auto program = Program::Load(artifact.Write(native, true), "cuda");
  if (!program) return program.error().message;
  std::vector<std::unique_ptr<Context>> contexts;
  std::vector<Context*> pointers;
  std::vector<float> values(3 * 1024, 1.0f);
  const int64_t dims[] = {1024, 3};
  for (int i = 0; i < 8; ++i) {
    auto context = Context::Create(**program);
    if (!context) return context.error().message;
    for (int input = 0; input < 2; ++input) {
      if (const Status bound = (*context)->BindInput(input, values.data(), dims, false); !bound)
        return bound.error().message;
    }
    contexts.push_back(std::move(*context));
    pointers.push_back(contexts.back().get());
  }
  const auto times = MeasureRotating(pointers, 5, 200);
  if (GraphsAreOff()) return times ? "measured without graphs" : "";
  if (!times) return times.error().message;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) {
    if (const Status run = contexts[0]->Run(); !run) return run.error().message;
  }
  const std::chrono::duration<double, std::micro> calls = std::chrono::steady_clock::now() - begin;
  std::printf("       (one small kernel: %.2f us a replay, %.2f us a call with host memory)\n",
              (*times)[2], calls.count() / 1000);
  return (*times)[2] > 0.1 && (*times)[2] < 1000 ? "" : "implausible";
}

constexpr char kFault[] = R"(
extern "C" __global__ void k_fault(const float* x, float* y) { y[threadIdx.x + (1ll << 45)] = x[0]; }
)";

std::string FatalError() {
  HandMadeArtifact artifact;
  const int x = artifact.Input("x", FUSEC_F32, {"1"});
  const int y = artifact.Output("y", FUSEC_F32, {"1"});
  artifact.Kernel({"k_fault", kFault, "1", 32, 0, {"b0", "b1"}, {x}, {y}});
  Session session(artifact.Write(native, true));
  const float value = 1;
  session.Input(0, &value, {1});
  session.Run();
  if (session.status() != FUSEC_NO_DEVICE) return Text("status ", session.status());
  std::printf("       (%s)\n", session.error().c_str());
  if (GraphsAreOff() && session.error().find("k_fault") == std::string::npos)
    return "does not name the kernel";
  session.Forget();
  session.Run();
  std::printf("       (%s)\n", session.error().c_str());
  return session.error().find("unusable") != std::string::npos ? "" : "still usable";
}

// Binds an invalid address as device memory. The driver then rejects all further work of the process, and every existing and new context
// must say why.
std::string BadPointer() {
  HandMadeArtifact artifact;
  AddModel(artifact);
  Session session(artifact.Write(native, true));
  Session other(session.program());
  std::string error = RunAdd(other, 4, 1);
  if (!error.empty()) return error;
  const std::vector<float> b(12, 1.0f);
  session.Input(0, reinterpret_cast<void*>(uintptr_t{1} << 44), {4, 3}, true);
  session.Input(1, b.data(), {4, 3});
  session.Run();
  if (session.status() != FUSEC_NO_DEVICE) return Text("status ", session.status());
  const std::string first = session.error();
  std::printf("       (%s)\n", first.c_str());
  for (Session* each : {&session, &other}) {
    each->Forget();
    each->Run();
    if (each->status() != FUSEC_NO_DEVICE || each->error().find("unusable") == std::string::npos)
      return Text("still usable: status ", each->status(), " ", each->error());
  }
  std::printf("       (%s)\n", other.error().c_str());
  const Session late(session.program());
  return late.error() == other.error() ? "" : Text("a new context says: ", late.error());
}

}  // namespace fusec::runtime
