#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/gpu/random_runs.h"
#include "tests/gpu/smoke_cases.h"

namespace fusec::runtime {

bool GraphsAreOff() {
  const char* value = std::getenv("FUSEC_CUDA_GRAPH");
  return value != nullptr && std::string(value) == "0";
}

constexpr char kAdd[] = R"(
extern "C" __global__ void k_add(const float* a, const float* b, float* sum, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) sum[i] = a[i] + b[i];
}
)";

// sum = a + b for f32[batch, 3]
void AddModel(HandMadeArtifact& artifact) {
  artifact.Symbol("batch", 0, 1 << 20);
  const int a = artifact.Input("a", FUSEC_F32, {"batch", "3"});
  const int b = artifact.Input("b", FUSEC_F32, {"batch", "3"});
  const int sum = artifact.Output("sum", FUSEC_F32, {"batch", "3"});
  artifact.Kernel({"k_add",
                   kAdd,
                   "floordiv(batch*3 + 127, 128)",
                   128,
                   0,
                   {"b0", "b1", "b2", "i:batch*3"},
                   {a, b},
                   {sum}});
}

std::string RunAdd(Session& session, int64_t batch, float scale) {
  std::vector<float> a(static_cast<size_t>(batch) * 3), b(a.size());
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i) * scale, b[i] = 1 - scale;
  session.Input(0, a.data(), {batch, 3});
  session.Input(1, b.data(), {batch, 3});
  session.Run();
  if (!session.ok()) return session.error();
  for (size_t i = 0; i < a.size(); ++i) {
    const float found = session.OutputAs<float>(0)[i];
    if (found != a[i] + b[i])
      return Text("batch ", batch, ": element ", i, " is ", std::to_string(found));
  }
  return "";
}

std::string ChangingDims() {
  HandMadeArtifact artifact;
  AddModel(artifact);
  Session session(artifact.Write(native, true));
  // More dims than graphs are kept, there and back.
  for (const int64_t batch :
       {1, 128, 1, 0, 5, 6, 7, 8, 9, 10, 11, 12, 100000, 1, 128, 0, 13, 5, 6, 100000}) {
    for (const float scale : {0.5f, 0.25f}) {
      std::string error = RunAdd(session, batch, scale);
      if (!error.empty()) return error;
    }
  }
  return "";
}

std::string WithoutMachineCode() {
  HandMadeArtifact artifact;
  AddModel(artifact);
  Session session(artifact.Write("sm_80", false));
  return session.ok() ? RunAdd(session, 77, 0.5f) : session.error();
}

std::string DamagedMachineCode() {
  HandMadeArtifact artifact;
  AddModel(artifact);
  const std::string file = artifact.Write(native, true) + "/cubin/" + native + ".cubin";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  Session session(artifact.path());
  if (session.status() != FUSEC_BAD_ARTIFACT)
    return Text("status ", session.status(), ": ", session.error());
  return "";
}

std::string OtherGpu() {
  fusec_program* program = nullptr;
  HandMadeArtifact artifact;
  AddModel(artifact);
  const fusec_status status = fusec_load(artifact.Write(native, true).c_str(), "cuda:99", &program);
  if (status != FUSEC_NO_DEVICE) return Text("status ", status);
  return std::strstr(fusec_last_error(), "cuda:99") ? "" : fusec_last_error();
}

std::string TwoContextsInTwoThreads() {
  HandMadeArtifact artifact;
  AddModel(artifact);
  Session owner(artifact.Write(native, true));
  if (!owner.ok()) return owner.error();
  std::string errors[2];
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      Session session(owner.program());
      for (int i = 0; i < 300 && errors[t].empty(); ++i) {
        errors[t] = RunAdd(session, 1 + (i * (t + 7)) % 50, t == 0 ? 0.5f : 0.25f);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors[0].empty() ? errors[1] : errors[0];
}

std::string AnyRunsInAnyOrder() {
  if (gpu->capability() < 90) return "";
  constexpr unsigned kSeeds = 30;
  constexpr int kSteps = 100;
  HandMadeArtifact artifact;
  RandomRuns::AddModel(artifact);
  const auto program = Program::Load(artifact.Write(native, true), "cuda");
  if (!program) return program.error().message;
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    RandomRuns runs(**program, *gpu, seed);
    const std::string wrong = runs.Take(kSteps);
    if (!wrong.empty()) return Text("seed ", seed, ", ", wrong);
  }
  return "";
}

// Memory of the GPU for a test, filled with floats.
struct GpuFloats {
  GpuFloats(size_t count, float first, float step) : count(count) {
    auto memory = AllocateDevice(*gpu, count * 4, "a test");
    if (memory) owner = std::move(*memory);
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = first + step * static_cast<float>(i);
    gpu->driver().cuMemcpyHtoDAsync(owner.get(), values.data(), count * 4, nullptr);
    gpu->driver().cuStreamSynchronize(nullptr);
  }
  void* data() const { return reinterpret_cast<void*>(owner.get()); }
  float Last() const {
    float value = 0;
    gpu->driver().cuMemcpyDtoHAsync(&value, owner.get() + 4 * (count - 1), 4, nullptr);
    gpu->driver().cuStreamSynchronize(nullptr);
    return value;
  }
  size_t count;
  DeviceMemory owner;
};

std::string DeviceMemoryInPlace() {
  HandMadeArtifact artifact;
  AddModel(artifact);
  Session session(artifact.Write(native, true));
  ScopedContext scope(*gpu);
  std::vector<GpuFloats> inputs, outputs;
  for (int i = 0; i < 12; ++i) {  // more than graphs are kept
    inputs.emplace_back(30, static_cast<float>(i), 1.0f);
    outputs.emplace_back(30, 0.0f, 0.0f);
  }
  auto first = CreateStream(*gpu), second = CreateStream(*gpu);
  if (!first || !second) return "no stream";
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      session.Input(0, inputs[i].data(), {10, 3}, true);
      session.Input(1, inputs[(i + 1) % 12].data(), {10, 3}, true);
      session.BindOutput(0, outputs[i].data(), 120, true);
      session.RunAsync(i % 5 == 0 ? second->get() : first->get());
    }
  }
  session.Synchronize();
  if (!session.ok()) return session.error();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const float expected = static_cast<float>(i + 29 + (i + 1) % 12 + 29);
    if (outputs[i].Last() != expected)
      return Text("set ", i, " gave ", std::to_string(outputs[i].Last()));
  }
  session.Input(0, static_cast<char*>(inputs[0].data()) + 4, {9, 3}, true);
  session.Run();
  return session.status() == FUSEC_BAD_INPUT ? "" : "took a misaligned input";
}

std::string HostOutputsAsync() {
  HandMadeArtifact artifact;
  AddModel(artifact);
  Session session(artifact.Write(native, true));
  std::vector<float> a(9, 2), b(9, 3), first(9), second(9);
  session.Input(0, a.data(), {3, 3});
  session.Input(1, b.data(), {3, 3});
  session.BindOutput(0, first.data(), 36);
  session.RunAsync(nullptr);
  session.Input(0, b.data(), {3, 3});
  session.BindOutput(0, second.data(), 36);
  session.RunAsync(nullptr);
  session.Synchronize();
  if (!session.ok()) return session.error();
  return first[8] == 5 && second[8] == 6 ? "" : "wrong sums";
}

constexpr char kGather[] = R"(
struct IndexError { int site; int reserved; long long position, value, extent; };
extern "C" __global__ void k_gather(const float* table, const long long* index, float* row,
                                    IndexError* errors, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  long long place = index[i];
  if (place < -10 || place >= 10) {
    if (atomicCAS(&errors->site, 0, 1) == 0) {
      errors->position = i; errors->value = place; errors->extent = 10;
    }
    place = 0;
  }
  row[i] = table[place < 0 ? place + 10 : place];
}
)";

std::string IndexOutOfRange() {
  HandMadeArtifact artifact;
  artifact.Symbol("batch", 1, 1000);
  std::vector<float> table(10);
  for (size_t i = 0; i < 10; ++i) table[i] = static_cast<float>(100 * i);
  const int in = artifact.Input("index", FUSEC_I64, {"batch", "2"});
  const int constant = artifact.Constant("table", FUSEC_F32, 10, table.data());
  const int out = artifact.Output("row", FUSEC_F32, {"batch", "2"});
  artifact.IndexSite("/emb/Gather", "index", {"batch", "2"}, 10);
  artifact.Kernel({"k_gather",
                   kGather,
                   "floordiv(batch*2 + 63, 64)",
                   64,
                   0,
                   {"b1", "b0", "b2", "e", "i:batch*2"},
                   {constant, in},
                   {out}});
  Session session(artifact.Write(native, true));
  std::vector<int64_t> index(200, 3);
  for (const bool async : {false, true, false}) {
    index[131] = 12;
    session.Input(0, index.data(), {100, 2});
    if (async)
      session.RunAsync(nullptr), session.Synchronize();
    else
      session.Run();
    if (session.status() != FUSEC_BAD_INPUT)
      return Text("status ", session.status(), ": ", session.error());
    for (const char* part : {"/emb/Gather", "12", "[65, 1]"}) {
      if (session.error().find(part) == std::string::npos) return session.error();
    }
    session.Forget();
    index[131] = -1;
    session.Run();
    if (!session.ok()) return session.error();
    const float* row = session.OutputAs<float>(0);
    if (row[131] != 900 || row[130] != 300) return "wrong rows";
  }
  return "";
}

}  // namespace fusec::runtime
