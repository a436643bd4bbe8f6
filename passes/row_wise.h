#pragma once

#include <optional>
#include <string>

#include "compiler/ir/graph.h"
#include "compiler/support/adt.h"

namespace fusec {

// The dim `batch` of a graph, which counts its items. A value has rows of items if its first dim is
// the batch, or k times the batch, as after a reshape that merges axes: the k rows from i*k on then
// belong to item i.
class Items {
 public:
  Items(std::string batch, Ranges ranges) : batch_(std::move(batch)), ranges_(std::move(ranges)) {}

  const std::string& batch() const { return batch_; }
  const Ranges& ranges() const { return ranges_; }
  bool DependOn(const Expr& expr) const;
  // How many rows of a value belong to each item; nullopt if its rows do not belong to items, or if
  // its other dims depend on the number of items.
  std::optional<Expr> RowsPerItem(ShapeRef shape) const;

 private:
  std::string batch_;
  Ranges ranges_;
};

// Returns nullopt if the rows of an item in the results of `node` depend only on the same item's
// rows of the operands for which `is_by_item` is true, and on operands without rows of items. They
// may then be computed once for items whose operands are equal. Otherwise returns what they depend
// on in addition. `node` must not be a region.
std::optional<std::string> WhyNotRowWise(const Node& node, const Items& items,
                                         function_ref<bool(const Value*)> is_by_item);

}  // namespace fusec
