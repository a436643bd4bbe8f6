#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "runtime/src/artifact/artifact.h"
#include "runtime/src/cpu/cpu_library.h"
#include "runtime/src/cpu/cpu_matmul.h"
#include "runtime/src/executor.h"
#include "runtime/src/gate.h"
#include "runtime/src/index_error.h"

namespace fusec::runtime {

// A set of weights on the CPU, which are read from the mapped file, and data derived from them.
struct CpuWeights {
  std::shared_ptr<Artifact> artifact;
  CpuMatmulWeights for_matmuls = {};
};

// The weights with which new runs begin.
class CurrentWeights {
 public:
  std::shared_ptr<CpuWeights> Get() const {
    const std::lock_guard lock(mutex_);
    return weights_;
  }
  void Set(std::shared_ptr<CpuWeights> weights) {
    const std::lock_guard lock(mutex_);
    weights_.swap(weights);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<CpuWeights> weights_;
};

// The state that all contexts of a program on the CPU share.
struct CpuProgram {
  const Artifact& artifact;
  const Target& target;
  int threads = 1;
  CpuLibrary library;
  std::vector<CpuLibrary::BlocksFunction> functions;  // by step; null for matmuls
  const OneDnn* onednn = nullptr;
  CurrentWeights weights = {};
  Gate runs = {};  // runs are inside; updates of rows close it
};

class AlignedMemory {
 public:
  // Makes the memory at least `bytes` large, aligned to 256 bytes. The contents may be lost. `what`
  // names the memory in errors.
  Status Reserve(size_t bytes, const char* what);
  std::byte* data() const { return memory_.get(); }
  size_t capacity() const { return capacity_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte[], Free> memory_;
  size_t capacity_ = 0;
};

class CpuExecutor : public Executor {
 public:
  explicit CpuExecutor(CpuProgram& program);

  Status Run(const RunBindings& bindings) override;
  Status RunAsync(const RunBindings& bindings, void* stream) override;
  Status Synchronize() override { return {}; }
  void FinishEarlier() override {}
  StatusOr<std::vector<double>> MeasureRuns(const RunBindings& bindings, int count) override;
  void* stream() const override { return nullptr; }
  size_t scratch_bytes() const override { return arena_.capacity(); }
  // The time of every step within one run in microseconds, by step; 0 for steps that do not run.
  StatusOr<std::vector<double>> MeasureSteps(const RunBindings& bindings);

 private:
  struct StepState {
    bool runs = true;
    std::vector<void*> arguments;            // of a kernel: pointers to the argument values
    std::vector<int64_t> dims;               // by argument: the value of dim arguments
    std::vector<std::vector<void*>> tables;  // by argument: the addresses of a list of buffers
    int64_t blocks = 0;
    MatmulSizes sizes;  // of a matmul
    int useful_threads = 1;
  };
  // A place in the arguments of a step that holds the address of a buffer of a list.
  struct Listed {
    void** place;
    int buffer;
  };
  void TakeWeights(std::shared_ptr<CpuWeights> weights);
  Status Update(const RunBindings& bindings);
  Status UpdateKernel(const Step& step, StepState& state, std::span<const int64_t> symbols);
  Status BindTensors(const RunBindings& bindings);
  Status RunSteps(int threads);
  Status RunStep(size_t index, int threads);
  Status RunMatmul(int index, int threads);
  Status RunMatmulCall(int index, const MatmulSizes& sizes, int threads);

  CpuProgram& program_;
  const Manifest& manifest_;
  std::shared_ptr<CpuWeights> weights_;  // of the last run
  std::vector<void*> buffers_;           // by buffer; kernel arguments point into it
  std::vector<StepState> steps_;
  std::vector<Listed> listed_;  // of all steps, filled in before each run
  IndexError error_;
  IndexError* error_address_ = &error_;
  std::optional<CpuMatmul> matmul_;  // with these weights
  uint64_t dims_version_ = 0;
  std::vector<double>* step_us_ = nullptr;  // the result of MeasureSteps while it runs
  AlignedMemory arena_;
  std::vector<AlignedMemory> aligned_inputs_, aligned_outputs_;  // copies of unaligned tensors
};

}  // namespace fusec::runtime
