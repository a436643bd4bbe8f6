#pragma once

#include <fusec/fusec.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/plan/program_plan.h"
#include "compiler/reference/interpreter.h"
#include "compiler/support/adt.h"

namespace fusec {

// Graphs side by side in one, so that one run of a compiler serves them all. Values get the prefix
// "g<number>_"; symbols of one name must be the same.
std::unique_ptr<Graph> SideBySide(ArrayRef<const Graph*> graphs);

// Where graphs run: on the CPU; on the CPU with the kernels planned for a GPU (gpu_text_on_cpu.h), by
// their parts for CPUs or as on a GPU; on the machine's GPU.
enum class RunOn { kCpu, kGpuTextOnCpu, kEmulatedGpu, kGpu };

// Graphs fused, planned, compiled, written to an artifact and loaded.
class CompiledGraphs {
 public:
  // Without `passes`, those of a compilation. Without a `candidate`, planned kernels; each number
  // stands for other kernels among those that tuning would try.
  static Result<std::unique_ptr<CompiledGraphs>> Make(ArrayRef<const Graph*> graphs,
                                                      RunOn where = RunOn::kCpu,
                                                      std::vector<std::string> passes = {},
                                                      const std::string& precision = "highest",
                                                      std::optional<size_t> candidate = {});
  ~CompiledGraphs();

  // Inputs of each graph in order, then the outputs of each.
  Result<std::vector<std::vector<ReferenceTensor>>> Run(
      ArrayRef<std::vector<ReferenceTensor>> inputs);

  // For tests that bind memory by themselves; inputs and outputs are those of the graphs, in order.
  const fusec_program* program() const { return program_; }
  fusec_context* context() const { return context_; }

 private:
  CompiledGraphs() = default;
  Result<void> Load(std::shared_ptr<const Graph> fused, RunOn where, const std::string& precision,
                    std::optional<size_t> candidate);
  std::string folder_;
  std::vector<size_t> output_counts_;
  fusec_program* program_ = nullptr;
  fusec_context* context_ = nullptr;
};

// Runs all graphs and expects Interpret's results, as FirstDifference compares them; a failure says
// `what` was run.
void ExpectAnswers(CompiledGraphs& compiled, ArrayRef<const Graph*> graphs,
                   ArrayRef<std::vector<ReferenceTensor>> inputs, double tolerance,
                   const std::string& what);

// The graph's results if every value is rounded to its dtype, as memory holds it. How far they are
// from Interpret's says how much rounding matters to this graph and these inputs.
Result<std::vector<ReferenceTensor>> InterpretRounded(const Graph& graph,
                                                      ArrayRef<ReferenceTensor> inputs);

// Where a compiled graph's results are wrong, as text, or "". A float may be off by `relative` of
// the tensor's largest magnitude (of 1, if that is more: terms of about 1 may cancel), plus 8 times
// what rounding did to the worst element of `rounded`. Integers, NaN and infinities must be in
// their places.
std::string FirstWrong(ArrayRef<ReferenceTensor> expected,
                       ArrayRef<ReferenceTensor> rounded,
                       ArrayRef<ReferenceTensor> found, double relative);

// Runs a graph on random inputs of these batches and expects what FirstWrong does, `relative`
// included.
void ExpectRightAnswers(const Graph& graph, RunOn where, const std::string& precision,
                        uint64_t seed, ArrayRef<int64_t> batches, double relative);

}  // namespace fusec
