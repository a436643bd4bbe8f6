#pragma once

#include <functional>

#include "compiler/import/cell_algebra.h"
#include "compiler/import/step_values.h"

namespace fusec {

// Reads values of a loop's body, [batch, columns], as polynomials of the column blocks of its
// states, of what the step brings, and of products (cell_algebra.h).
class CellReader {
 public:
  // `state_of` gives the number of the state that an input of the body is; the states have `units`
  // columns. They become the first atoms of `algebra`.
  CellReader(StepValues& values, ImportState& inner, CellAlgebra& algebra, int64_t units,
             DenseMap<const Value*, int> state_of, int states);

  // One polynomial per block of `units` columns. A value of one column, which all units share, is
  // one polynomial. Empty if the value cannot be read.
  using Blocks = std::vector<Polynomial>;
  Blocks Read(Value* value);

 private:
  Blocks Compute(Value* value);
  Blocks Leaf(Value* value);
  bool IsWidened(const Node& node);
  bool Chooses(const Node& node);
  bool IsComplement(const Node& node);
  Blocks OfNode(const Node& node);
  Blocks Combined(const Node& node,
                  const std::function<std::optional<Polynomial>(ArrayRef<Polynomial>)>& combine);
  Blocks Arithmetic(const Node& node);
  Blocks SliceOf(const Node& node);
  Blocks ConcatOf(const Node& node);
  Blocks ProductOf(const Node& node);
  Blocks Activated(const Node& node);
  Blocks Clipped(const Node& node);
  Polynomial Of(CellFactor factor, const Polynomial& argument);

  StepValues& values_;
  ImportState& inner_;
  CellAlgebra& algebra_;
  const int64_t units_;
  const DenseMap<const Value*, int> state_of_;
  DenseMap<const Value*, Blocks> known_;
};

}  // namespace fusec
