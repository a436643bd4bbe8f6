#pragma once

#include <string>
#include <vector>

#include "compiler/driver/verify/verify_subject.h"
#include "compiler/ir/region_class.h"

namespace fusec {

// One result of one region, made by its compiled kernel alone, against the region's unfused body
// interpreted in double on the same operands.
struct RegionJudgement {
  size_t region = 0;  // its place among the regions
  std::string kernel;
  RegionClass region_class = RegionClass::kPointwise;
  DimValues dims;
  Comparison comparison;  // its name is the tensor's
};

// Every region of an artifact, each fed with what the interpreter says that its operands are
// (rounded to their dtypes), so that an error shows only where it is made. For this the artifact's
// kernels run once in another order of data: what a step would read of another step is given as an
// input, what it writes is an output.
class RegionCheck {
 public:
  // `folder` is an empty one for the artifact with the steps taken apart; it must outlive this.
  static Result<RegionCheck> Make(const Subject& subject, const std::string& folder);

  // In the order of the steps.
  Result<std::vector<RegionJudgement>> Judge(const Inputs& inputs, const DimValues& dims) const;

  // The fused graph with the data of its constants; RegionsOf it are the steps.
  const Graph& graph() const { return *graph_; }

 private:
  std::unique_ptr<Graph> graph_;
  std::unique_ptr<Graph> separated_;  // every region reads inputs and constants only
  std::unique_ptr<runtime::Program> program_;
  std::vector<const Value*>
      given_;  // values of graph_: the inputs that separated_ has besides its own
  size_t own_inputs_ = 0;
};

}  // namespace fusec
