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

// Combines graphs into one, so that they are all compiled at once. Values get the prefix "g<number>_"; symbols with the same name must be
// the same.
std::unique_ptr<Graph> SideBySide(ArrayRef<const Graph*> graphs);

// Where graphs run: on the CPU; on the CPU with the kernels planned for a GPU (gpu_text_on_cpu.h), either by the CPU parts of their text or
// by emulating a GPU; or on the machine's GPU.
enum class RunOn { kCpu, kGpuTextOnCpu, kEmulatedGpu, kGpu };

// Graphs fused, planned, compiled, written to an artifact and loaded.
class CompiledGraphs {
 public:
  // Without `passes`, runs the passes of a compilation. Without a `candidate`, uses the planned kernels; each number selects other kernels
  // among those that tuning would try.
  static Result<std::unique_ptr<CompiledGraphs>> Make(ArrayRef<const Graph*> graphs,
                                                      RunOn where = RunOn::kCpu,
                                                      std::vector<std::string> passes = {},
                                                      const std::string& precision = "highest",
                                                      std::optional<size_t> candidate = {});
  ~CompiledGraphs();

  // Takes the inputs of each graph in order, and returns the outputs of each graph.
  Result<std::vector<std::vector<ReferenceTensor>>> Run(
      ArrayRef<std::vector<ReferenceTensor>> inputs);

  // For tests that bind memory themselves. The program's inputs and outputs are those of the graphs, in order.
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

// Runs all graphs and expects the results of Interpret, compared by FirstDifference. A failure message contains `what`.
void ExpectAnswers(CompiledGraphs& compiled, ArrayRef<const Graph*> graphs,
                   ArrayRef<std::vector<ReferenceTensor>> inputs, double tolerance,
                   const std::string& what);

// The graph's results if every value is rounded to its dtype, as if it were stored. Their distance from the results of Interpret shows how
// much rounding affects this graph with these inputs.
Result<std::vector<ReferenceTensor>> InterpretRounded(const Graph& graph,
                                                      ArrayRef<ReferenceTensor> inputs);

// Describes where a compiled graph's results are wrong; "" if they are right. A float may differ by `relative` times the tensor's largest
// magnitude (or times 1, if that is larger, since terms of about 1 may cancel), plus 8 times the largest error of `rounded`. Integers must
// be equal, and NaN and infinities must be at the same places.
std::string FirstWrong(ArrayRef<ReferenceTensor> expected,
                       ArrayRef<ReferenceTensor> rounded,
                       ArrayRef<ReferenceTensor> found, double relative);

// Runs a graph on random inputs with these batches, and expects that FirstWrong with `relative` finds nothing.
void ExpectRightAnswers(const Graph& graph, RunOn where, const std::string& precision,
                        uint64_t seed, ArrayRef<int64_t> batches, double relative);

}  // namespace fusec
