#pragma once

#include <optional>
#include <string>

#include "compiler/ir/graph.h"
#include "compiler/support/adt.h"

namespace fusec {

// The dim `batch` of a graph, whose items are rows of its values. A value belongs to items if its
// first dim is the batch, or a multiple of it, as after a reshape that merges axes: item i then has
// the rows from i*k on.
class Items {
 public:
  Items(std::string batch, Ranges ranges) : batch_(std::move(batch)), ranges_(std::move(ranges)) {}

  const std::string& batch() const { return batch_; }
  const Ranges& ranges() const { return ranges_; }
  bool DependOn(const Expr& expr) const;
  // How many rows of a value belong to each item; nullopt if its rows do not belong to items, or
  // its other dims depend on how many there are.
  std::optional<Expr> RowsPerItem(ShapeRef shape) const;

 private:
  std::string batch_;
  Ranges ranges_;
};

// Says why the rows of an item in `node`'s results depend on more than the same item's rows of the
// operands for which `is_by_item` says yes, and others that have no rows of items; nullopt if they
// do not. They may then be computed once for items whose operands are equal. `node` is no region.
std::optional<std::string> WhyNotRowWise(const Node& node, const Items& items,
                                         function_ref<bool(const Value*)> is_by_item);

}  // namespace fusec
