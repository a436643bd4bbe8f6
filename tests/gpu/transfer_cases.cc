// Copies of all kinds of host memory to the GPU and back.
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tests/gpu/smoke_cases.h"

namespace fusec::runtime {
namespace {

enum class Kind { kPageable, kAllocated, kRegistered, kOfTheProgram };
constexpr Kind kKinds[] = {Kind::kPageable, Kind::kAllocated, Kind::kRegistered,
                           Kind::kOfTheProgram};
constexpr const char* kKindNames[] = {"pageable", "allocated by CUDA", "registered with CUDA",
                                      "of fusec_allocate_host"};

// Makes `count` floats page-locked, or pageable again; returns whether it succeeded.
bool Register(float* memory, size_t count, bool is_registered) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return false;
  if (!is_registered) {
    using Function = CUresult (*)(void*);
    const auto unregister = reinterpret_cast<Function>(dlsym(driver, "cuMemHostUnregister"));
    return unregister != nullptr && unregister(memory) == CUDA_SUCCESS;
  }
  using Function = CUresult (*)(void*, size_t, unsigned);
  const auto enlist = reinterpret_cast<Function>(dlsym(driver, "cuMemHostRegister_v2"));
  return enlist != nullptr && enlist(memory, count * 4, 0) == CUDA_SUCCESS;
}

// Floats first, first + 1, ... modulo 1000. Needs the context to be current.
class HostFloats {
 public:
  HostFloats(fusec_program* program, Kind kind, size_t count, size_t first)
      : program_(program), kind_(kind), count_(count) {
    if (kind == Kind::kPageable || kind == Kind::kRegistered) {
      // Memory in pages that nothing else registers.
      const size_t pages = (count * 4 + kPageBytes - 1) / kPageBytes;
      pageable_.reset(static_cast<float*>(std::aligned_alloc(kPageBytes, pages * kPageBytes)));
      data_ = pageable_.get();
      if (kind == Kind::kRegistered && !Register(data_, count, true)) data_ = nullptr;
    } else if (kind == Kind::kAllocated) {
      auto memory = AllocatePinned(*gpu, count * 4, "a test");
      if (memory) allocated_ = std::move(*memory);
      data_ = static_cast<float*>(allocated_.get());
    } else {
      void* memory = nullptr;
      fusec_allocate_host(program, count * 4, &memory);
      data_ = static_cast<float*>(memory);
    }
    for (size_t i = 0; data_ != nullptr && i < count; ++i) data_[i] = Value(first + i);
  }
  ~HostFloats() {
    if (kind_ == Kind::kRegistered && data_ != nullptr) Register(data_, count_, false);
    if (kind_ == Kind::kOfTheProgram) fusec_free_host(program_, data_);
  }
  HostFloats(const HostFloats&) = delete;
  static float Value(size_t i) { return static_cast<float>(i % 1000); }
  float* data() const { return data_; }
  size_t bytes() const { return count_ * 4; }

 private:
  static constexpr size_t kPageBytes = 4096;
  fusec_program* program_;
  Kind kind_;
  size_t count_;
  std::unique_ptr<float, decltype(&std::free)> pageable_{nullptr, &std::free};
  PinnedMemory allocated_;
  float* data_ = nullptr;
};

// Checks a sum of floats that begin at `first` and at `second`; returns what is wrong.
std::string WrongSum(const float* sum, size_t count, size_t first, size_t second) {
  for (size_t i = 0; i < count; ++i) {
    const float expected = HostFloats::Value(first + i) + HostFloats::Value(second + i);
    if (sum[i] == expected) continue;
    return Text("element ", i, " is ", std::to_string(sum[i]), ", expected ",
                std::to_string(expected));
  }
  return "";
}

std::string RunKinds(Session& session, int64_t batch, Kind in, Kind out, double* us) {
  constexpr int kCalls = 20;
  const size_t count = static_cast<size_t>(batch) * 3;
  const HostFloats a(session.program(), in, count, 0), b(session.program(), in, count, 7);
  const HostFloats sum(session.program(), out, count, 0);
  if (!a.data() || !b.data() || !sum.data()) return "no memory";
  session.Input(0, a.data(), {batch, 3});
  session.Input(1, b.data(), {batch, 3});
  session.BindOutput(0, sum.data(), sum.bytes());
  session.Run();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) session.Run();
  const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begin;
  *us = taken.count() / kCalls;
  if (!session.ok()) return session.error();
  return WrongSum(sum.data(), count, 0, 7);
}

}  // namespace

std::string HostMemoryOfAllKinds() {
  HandMadeArtifact artifact;
  AddModel(artifact);
  Session session(artifact.Write(native, true));
  if (!session.ok()) return session.error();
  ScopedContext scope(*gpu);
  for (const int64_t batch : {1, 2500, 3000, 20000, 21846, 40000, 1 << 20}) {
    for (const Kind in : kKinds) {
      for (const Kind out : kKinds) {
        double us = 0;
        const std::string error = RunKinds(session, batch, in, out, &us);
        const std::string what = Text(batch, " rows, ", kKindNames[static_cast<int>(in)], " to ",
                                      kKindNames[static_cast<int>(out)]);
        if (!error.empty()) return Text(what, ": ", error);
        if (in == out) std::printf("       (%s: %.1f us a call)\n", what.c_str(), us);
      }
    }
  }
  return "";
}

// A node of the graph copies the inputs of few rows. What many rows need then, for an output that
// is pageable, is more of staging in the host's memory only, which may be given the same address
// again.
std::string StagingThatGrows() {
  constexpr int64_t kFew = 6000, kMany = 22000;
  HandMadeArtifact artifact;
  AddModel(artifact);
  Session session(artifact.Write(native, true));
  if (!session.ok()) return session.error();
  ScopedContext scope(*gpu);
  std::string error = RunAdd(session, kMany, 0.5f);
  if (error.empty()) error = RunAdd(session, kFew, 0.5f);
  double us = 0;
  if (error.empty()) error = RunKinds(session, kMany, Kind::kPageable, Kind::kPageable, &us);
  session.BindOutput(0, nullptr, 0);
  return error.empty() ? RunAdd(session, kFew, 0.5f) : error;
}

// Runs behind one another on two streams, each with other page-locked memory.
std::string PageLockedAsync() {
  constexpr size_t kRuns = 20;
  constexpr int64_t kBatch = 40000;
  HandMadeArtifact artifact;
  AddModel(artifact);
  Session session(artifact.Write(native, true));
  if (!session.ok()) return session.error();
  ScopedContext scope(*gpu);
  std::vector<std::unique_ptr<HostFloats>> a, b, sums;
  const auto add = [&](auto& to, size_t first) {
    to.push_back(
        std::make_unique<HostFloats>(session.program(), Kind::kOfTheProgram, kBatch * 3, first));
  };
  for (size_t i = 0; i < kRuns; ++i) {
    add(a, i), add(b, 10 * i), add(sums, 0);
    session.Input(0, a[i]->data(), {kBatch, 3});
    session.Input(1, b[i]->data(), {kBatch, 3});
    session.BindOutput(0, sums[i]->data(), sums[i]->bytes());
    session.RunAsync(i % 3 == 0 ? nullptr : fusec_stream(session.context()));
  }
  session.Synchronize();
  if (!session.ok()) return session.error();
  for (size_t i = 0; i < kRuns; ++i) {
    const std::string error = WrongSum(sums[i]->data(), kBatch * 3, i, 10 * i);
    if (!error.empty()) return Text("run ", i, ": ", error);
  }
  return "";
}

}  // namespace fusec::runtime
