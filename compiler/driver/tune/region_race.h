#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/driver/artifact/artifact_session.h"
#include "compiler/driver/build/build_targets.h"
#include "compiler/driver/tune/canonical_region.h"
#include "compiler/driver/tune/tuning_file.h"
#include "compiler/support/adt.h"
#include "runtime/src/cuda/cublaslt_proposals.h"

namespace fusec {

// All kernels that can compute one region, compiled into one program and timed one by one. Besides
// the region's inputs, the program has one input for every symbol, so that all dims are known, and
// one whose length selects the kernel that runs.
//
// Each kernel runs on random data, first to compare its answers with those of the planned kernel,
// then to be timed: on a GPU by replays of a CUDA graph. A kernel that takes few microseconds is
// launched several times in a graph; otherwise the time of launching the graph would dominate.
class RegionRace {
 public:
  struct Target {
    std::string name;  // "cpu", "sm_90a"
    std::string matmul_precision;
    std::string device;    // as LoadProgram takes it
    std::string identity;  // text that identifies the device and its software
    std::vector<std::string> cpu_levels;
    // What cuBLASLt proposes for a product at some dims; null on the CPU.
    std::function<Result<std::vector<runtime::CublasLtProposals::Proposal>>(const MatMulPlan&,
                                                                            const DimValues&)>
        algorithms;
    bool batch_invariant = false;  // one kernel is chosen for all sizes: each is timed at each size
  };

  // `sizes` are those of the region's own symbols.
  static Result<RegionRace> Make(const Graph& fused, size_t number, const Target& target,
                                 ArrayRef<DimValues> sizes);

  const CanonicalRegion& region() const { return region_; }
  // The key of a measurement at `dims` in the kernel cache: everything on which it depends.
  Result<std::string> KeyAt(const DimValues& dims) const;
  Result<int64_t> SizeAt(const DimValues& dims) const;  // see RegionKernels::size
  // Compiles the kernels into the empty folder `folder`, which must outlive this object. Needs no
  // device, and may run in a thread of its own.
  Result<void> Compile(const std::string& folder);
  // Times the kernels for one of the sizes; Compile must have been called. Returns nothing if
  // `is_over` becomes true before all are timed.
  Result<std::optional<MeasuredSize>> Measure(const DimValues& dims, function_ref<bool()> is_over);

 private:
  struct Kernel {
    KernelChoice choice;
    Step step;
  };

  RegionRace() = default;
  Result<void> AddKernels(ArrayRef<DimValues> sizes);
  void AddInputs();
  size_t AddKernel(const KernelChoice& choice);
  Result<std::vector<KernelChoice>> LibraryChoices(const DimValues& dims);
  ProgramPlan Program() const;
  Result<void> MakeInputs(const DimValues& dims);
  Result<void> RunOn(size_t set, size_t kernel);
  Result<std::vector<TensorData>> Answers(size_t kernel, size_t planned);
  // What is wrong with the answers of a kernel; "" if they are right.
  std::string Problem(ArrayRef<TensorData> found, ArrayRef<TensorData> expected) const;
  Result<std::vector<double>> Samples(size_t kernel, bool repeated, int count, int replays);
  // Time of a launch in microseconds. If it is far above `best`, the first rough time is returned.
  Result<double> Time(size_t kernel, double best);
  Result<void> TimeAgain(ArrayRef<size_t> numbers, double best, function_ref<bool()> is_over,
                         MeasuredSize& measured);

  Target target_;
  CanonicalRegion region_;
  std::unique_ptr<PlanOptions> options_;
  std::unique_ptr<RegionKernels> ways_;
  size_t own_inputs_ = 0;  // number of the region's own inputs, which come first
  std::vector<Kernel> kernels_;
  std::vector<std::string> texts_;  // for each of kernels_, the text that distinguishes it
  std::map<std::string, std::string> configurations_;  // of library algorithms, by algorithm
  std::map<int64_t, std::vector<size_t>> by_size_;  // the kernels for a size, the planned one first
  std::vector<IndexSite> sites_;

  std::string folder_;
  std::unique_ptr<runtime::Program> program_;
  std::vector<std::unique_ptr<runtime::Context>> contexts_;  // one per set of inputs
  std::vector<Inputs> sets_;
};

}  // namespace fusec
