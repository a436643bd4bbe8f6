#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/plan/kernel_choice.h"
#include "compiler/plan/matmul/ranges.h"
#include "compiler/plan/plan_program.h"
#include "compiler/region/found_sum.h"
#include "compiler/support/adt.h"

namespace fusec {

// A choice, and the range of sizes from..to (inclusive) for which it is used.
struct Variant {
  KernelChoice choice;
  std::string suffix;
  int64_t from = 0, to = INT64_MAX;
  bool by_waves = false;  // `from` depends on how many blocks the GPU runs at once
};

// The fastest measured choice at one size of a region; nullopt if that was the one planned without
// measuring. A Tuning maps the number of each region in its graph to its winners, in ascending
// order of sizes.
struct Winner {
  int64_t size = 0;
  std::optional<KernelChoice> choice;
};

// The kernels that can compute one region on one target.
class RegionKernels {
 public:
  RegionKernels(const Node& region, std::string name, std::vector<std::string> ops,
                const PlanOptions& options, const Graph& graph);

  // The size that selects the kernel: the rows of a product, a block program or a reduction, the
  // batch of a recurrence, else the number of elements of the first result.
  const Expr& size() const { return size_; }

  // The variants to use without measurements, in ascending order of sizes, without gaps. With
  // batch_invariant, one variant serves all sizes.
  std::vector<Variant> Planned() const;
  // Planned(), but around each measured size its winner is used; the boundary of two winners is the
  // geometric mean of their sizes. With batch_invariant, the choice that won at all sizes, or else
  // Planned().
  std::vector<Variant> Tuned(ArrayRef<Winner> winners) const;
  // The choices worth measuring at `size`; some of them may result in the same kernel. With
  // batch_invariant, each can compute any size.
  std::vector<KernelChoice> Candidates(int64_t size) const;

  // The product of this region if a library can and may compute it, else null.
  const MatMulPlan* library_product() const { return library_ ? &*product_ : nullptr; }

  // Plans one step per variant; the steps are alternatives of each other.
  std::vector<Step> Plan(ArrayRef<Variant> variants, std::vector<IndexSite>& sites) const;

 private:
  Step PlanOne(const Variant& variant, std::vector<IndexSite>& sites) const;
  std::vector<Variant> PlannedBySize() const;
  Variant OneForAllSizes(std::vector<Variant> by_size) const;
  int64_t UsualSize() const;
  std::vector<Variant> PlannedBlocks() const;
  std::vector<Variant> PlannedSteps() const;
  std::vector<Variant> PlannedRows() const;
  std::vector<Variant> PlannedSlots() const;
  std::vector<Variant> PlannedKeys() const;
  std::vector<Variant> PlannedFinding() const;
  FirstRows BeyondWave(int64_t rows, int64_t parts = 1) const;
  std::vector<Variant> FewAndMany(Variant few, Variant many, FirstRows first) const;
  std::vector<Variant> WithoutIdle(std::vector<Variant> variants) const;
  std::vector<KernelChoice> CandidatesOf(int64_t size) const;
  std::vector<KernelChoice> ProductCandidates(int64_t size) const;

  const Node& region_;
  const std::string name_;
  const std::vector<std::string> ops_;
  const PlanOptions& options_;
  const Graph& graph_;
  const RegionClass class_;
  std::optional<FoundSum> found_;  // if kernels of few updates find them
  std::optional<MatMulPlan> product_;
  bool library_ = false;  // whether a library can and may compute product_
  Expr size_;
};

}  // namespace fusec
