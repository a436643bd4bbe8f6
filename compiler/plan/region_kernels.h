#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/kernel/launch_shape.h"
#include "compiler/plan/matmul/ranges.h"
#include "compiler/plan/matmul/schedule.h"
#include "compiler/plan/plan_program.h"
#include "compiler/support/adt.h"

namespace fusec {

// One way to make a region's results.
struct KernelChoice {
  MatMulSchedule product;  // of a region that is a product
  LaunchShape shape;       // of a generated kernel

  bool operator==(const KernelChoice&) const = default;
  // What kernels of this choice add to their region's name: "_rows_8", "_block_128".
  std::string Suffix() const;
  // "tile of 16 x 32, 8 warps, 3 stages of 512 bytes"; "as planned" where nothing is chosen.
  std::string Words() const;
  // Sizes above cannot be made in this way.
  int64_t MostRows() const;
};

// A choice and the sizes that it serves, both inclusive.
struct Variant {
  KernelChoice choice;
  std::string suffix;
  int64_t from = 0, to = INT64_MAX;
  bool by_waves = false;  // `from` follows from how many blocks the GPU runs at once
};

// What was measured at one size of a region: which choice was fastest there; none for what is
// planned without measuring. Tuning has the winners of each region, numbered as in its graph, in
// ascending order of sizes.
struct Winner {
  int64_t size = 0;
  std::optional<KernelChoice> choice;
};

// The kernels that can make one region for one target.
class RegionKernels {
 public:
  RegionKernels(const Node& region, std::string name, std::vector<std::string> ops,
                const PlanOptions& options, const Graph& graph);

  // What the choice of a kernel goes by: the rows of a product, a block program or a reduction,
  // else the elements of the first result.
  const Expr& size() const { return size_; }

  // What serves which sizes where nothing was measured: ascending, without gaps. One that serves
  // all where nothing may depend on the batch.
  std::vector<Variant> Planned() const;
  // Planned(), but each winner from halfway between the sizes around it (geometrically) on. Where
  // nothing may depend on the batch, what won at all sizes, or else Planned().
  std::vector<Variant> Tuned(ArrayRef<Winner> winners) const;
  // What is worth measuring at `size`; some of these may turn out to be the same kernel. Where
  // nothing may depend on the batch, they make any size.
  std::vector<KernelChoice> Candidates(int64_t size) const;

  // The product that a library can and may make, null of other regions.
  const MatMulPlan* library_product() const { return library_ ? &*product_ : nullptr; }

  // One step per variant, alternatives of each other.
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
  std::optional<MatMulPlan> product_;
  bool library_ = false;  // takes product_, and may
  Expr size_;
};

}  // namespace fusec
