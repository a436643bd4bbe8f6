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

// All kernels that can make one region, compiled into one program, to be timed one by one. The
// program has two kinds of inputs besides the region's: one for every symbol, so that all dims are
// known, and one whose length says which kernel runs.
//
// Each kernel runs on random data, first to compare its answers with those of the planned kernel,
// then for its time: on a GPU replays of a CUDA graph. A kernel that takes few microseconds is
// launched several times in a graph, or the launch of the graph would be all that is seen.
class RegionRace {
 public:
  struct Target {
    std::string name;  // "cpu", "sm_90a"
    std::string matmul_precision;
    std::string device;    // as LoadProgram takes it
    std::string identity;  // the device and its software, in words
    std::vector<std::string> cpu_levels;
    // What cuBLASLt proposes for a product at some dims; null on the CPU.
    std::function<Result<std::vector<runtime::CublasLtProposals::Proposal>>(const MatMulPlan&,
                                                                            const DimValues&)>
        algorithms;
    bool batch_invariant = false;  // one kernel is sought for all sizes: each is timed at each
  };

  // `sizes` are those of the region's own symbols.
  static Result<RegionRace> Make(const Graph& fused, size_t number, const Target& target,
                                 ArrayRef<DimValues> sizes);

  const CanonicalRegion& region() const { return region_; }
  // What a measurement at `dims` depends on, for the cache.
  Result<std::string> KeyAt(const DimValues& dims) const;
  Result<int64_t> SizeAt(const DimValues& dims) const;  // see RegionKernels::size
  // Compiles the kernels into `folder`, an empty one that must outlive this. Needs no device, and
  // may run in a thread of its own.
  Result<void> Compile(const std::string& folder);
  // Times the kernels for one of the sizes; Compile was called. Nothing if `is_over` before the
  // last of them is timed.
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
  // What is wrong with the answers of a kernel; "" for nothing.
  std::string Problem(ArrayRef<TensorData> found, ArrayRef<TensorData> expected) const;
  Result<std::vector<double>> Samples(size_t kernel, bool repeated, int count, int replays);
  // Microseconds of a launch; less exactly where that is far above `best`.
  Result<double> Time(size_t kernel, double best);
  Result<void> TimeAgain(ArrayRef<size_t> numbers, double best, function_ref<bool()> is_over,
                         MeasuredSize& measured);

  Target target_;
  CanonicalRegion region_;
  std::unique_ptr<PlanOptions> options_;
  std::unique_ptr<RegionKernels> ways_;
  size_t own_inputs_ = 0;  // the region's, which come first
  std::vector<Kernel> kernels_;
  std::vector<std::string> texts_;                     // of kernels_: what makes one differ
  std::map<std::string, std::string> configurations_;  // of the library's algorithms
  std::map<int64_t, std::vector<size_t>> by_size_;  // the kernels for a size, the planned one first
  std::vector<IndexSite> sites_;

  std::string folder_;
  std::unique_ptr<runtime::Program> program_;
  std::vector<std::unique_ptr<runtime::Context>> contexts_;  // one per set of inputs
  std::vector<Inputs> sets_;
};

}  // namespace fusec
