#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/ir/tensor.h"
#include "compiler/support/adt.h"
#include "compiler/support/result.h"

namespace fusec {

// An axis of an einsum: a letter, or for a dim under an ellipsis 256 plus its distance from the
// ellipsis' last dim.
using EinsumLabel = int;
using EinsumLabels = std::vector<EinsumLabel>;

// "b...ij,bjk->b...ik" with the ellipses spelled out for operands of known rank.
struct EinsumEquation {
  std::vector<EinsumLabels> operands;
  EinsumLabels result;
  std::map<EinsumLabel, Expr> sizes;  // an operand's own dim may also be 1, which broadcasts

  static Result<EinsumEquation> Parse(const std::string& equation, ArrayRef<Shape> shapes);
  Shape ResultShape() const;
};

}  // namespace fusec
