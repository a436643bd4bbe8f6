#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/ir/tensor.h"
#include "compiler/support/adt.h"
#include "compiler/support/result.h"

namespace fusec {

// An axis of an einsum: a letter, or, for a dim that an ellipsis stands for, 256 plus its distance
// from the last such dim.
using EinsumLabel = int;
using EinsumLabels = std::vector<EinsumLabel>;

// An equation such as "b...ij,bjk->b...ik", with ellipses replaced by labels according to the ranks
// of the operands.
struct EinsumEquation {
  std::vector<EinsumLabels> operands;
  EinsumLabels result;
  std::map<EinsumLabel, Expr> sizes;  // an operand's dim may also be 1, which broadcasts

  static Result<EinsumEquation> Parse(const std::string& equation, ArrayRef<Shape> shapes);
  Shape ResultShape() const;
};

}  // namespace fusec
