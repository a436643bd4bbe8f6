#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/src/executor.h"
#include "runtime/src/program.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// The state of one call: bound tensors, the sizes derived from their dims, and the executor with
// its scratch memory. fusec.h documents the methods.
class Context {
 public:
  static StatusOr<std::unique_ptr<Context>> Create(const Program& program);
  ~Context();
  Context(const Context&) = delete;

  Status BindInput(int i, const void* data, std::span<const int64_t> dims, bool on_device);
  Status BindOutput(int i, void* data, size_t bytes, bool on_device);
  StatusOr<std::vector<int64_t>> OutputDims(int i);
  StatusOr<std::vector<int64_t>> OutputBounds(int i);
  Status Run();
  Status RunAsync(void* stream);
  Status Synchronize();
  // Runs `count` times with the bound tensors and returns the device time of each run in
  // microseconds.
  StatusOr<std::vector<double>> MeasureRuns(int count);
  // Output i of the last run in host memory; its data are null if the output was bound to other
  // memory or no run has succeeded.
  TensorBinding GetOutput(int i) const;

  // Checks and returns the bindings of the next run, which are valid until the context changes. The
  // functions of bench.h use them.
  StatusOr<RunBindings> Prepare();
  Executor& executor() const { return *executor_; }

  const Program& program() const { return program_; }
  // The values of the symbols for the inputs bound now, e.g. to evaluate the sizes of steps.
  StatusOr<std::span<const int64_t>> SymbolValues();

 private:
  explicit Context(const Program& program);
  Status UpdateDims();
  Status UpdateSizes(std::span<const int64_t> symbols);
  Status NoteRunDims();
  Status CheckOutputsInPlace() const;
  Status ReadRunTimeSizes();

  struct OwnedOutput {
    void* memory = nullptr;
    size_t capacity = 0;
  };
  const Program& program_;
  std::unique_ptr<Executor> executor_;
  std::vector<TensorBinding> inputs_, given_outputs_, run_outputs_;
  std::vector<bool> input_is_bound_;
  std::vector<bool> output_is_given_;
  std::vector<std::vector<int64_t>> input_dims_;
  std::vector<OwnedOutput> owned_;
  bool has_result_ = false;
  // One entry per output of a program with run-time sizes: the upper bounds of the dims of the last
  // run, and after it has ended the actual dims.
  std::vector<std::vector<int64_t>> run_dims_;
  bool run_dims_are_true_ = false;  // run_dims_ holds the actual dims
  bool inputs_are_of_run_ = false;  // no input was bound after the last run began

  bool dims_are_current_ = false;  // the members below are derived from the current input_dims_
  uint64_t dims_version_ = 0;
  std::vector<int64_t> symbols_, buffer_bytes_;
  bool is_empty_run_ = false;  // all outputs are empty, so that nothing is run
  ArenaPlan arena_;
};

}  // namespace fusec::runtime
