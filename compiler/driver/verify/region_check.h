#pragma once

#include <string>
#include <vector>

#include "compiler/driver/verify/verify_subject.h"
#include "compiler/ir/region_class.h"

namespace fusec {

// The comparison of one result of a region: computed by its compiled kernel alone, against the
// region's unfused body interpreted in double precision on the same operands.
struct RegionJudgement {
  size_t region = 0;  // its index among the regions
  std::string kernel;
  RegionClass region_class = RegionClass::kPointwise;
  DimValues dims;
  Comparison comparison;  // its name is that of the tensor
};

// Checks every region of an artifact on operands that the interpreter computes (rounded to their
// dtypes), so that an error shows only in the region that causes it. For this, the artifact's
// kernels run in a program in which they are separated: tensors that a step reads from another step
// are inputs, and tensors that it writes are outputs.
class RegionCheck {
 public:
  // `folder` is an empty folder for the artifact with separated steps; it must outlive this object.
  static Result<RegionCheck> Make(const Subject& subject, const std::string& folder);

  // The comparisons of all results, in the order of the steps.
  Result<std::vector<RegionJudgement>> Judge(const Inputs& inputs, const DimValues& dims) const;

  // The fused graph with the data of its constants. Its regions (RegionsOf) are the steps.
  const Graph& graph() const { return *graph_; }

 private:
  std::unique_ptr<Graph> graph_;
  std::unique_ptr<Graph> separated_;  // every region reads inputs and constants only
  std::unique_ptr<runtime::Program> program_;
  std::vector<const Value*> given_;  // values of graph_ that are additional inputs of separated_
  size_t own_inputs_ = 0;
};

// A table with one row for each judgement, for people.
std::string JudgementTable(ArrayRef<RegionJudgement> judgements);

}  // namespace fusec
