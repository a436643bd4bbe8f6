#pragma once

#include <string>

#include "compiler/kernel/size_names.h"

namespace fusec {

// What a kernel calls the sizes of the parts of its results, each of which one loop makes: a value
// of the region, or a run of alike ones (part_run.h).
class PartNames {
 public:
  PartNames(const Node& region, const KernelBuilder& builder)
      : region_(region), builder_(builder) {}

  // A part that is the whole of a result is called as this.
  std::string NameOf(const Value* part) const;
  SizeName Extent(const Value* part, size_t axis) const;
  // How many elements a result has: columns for each of its rows, if it is made of such.
  SizeNames Elements(const Value* result) const;
  // What a row of a part is made of, the axes from `first` on: elements, or vectors of `lanes`
  // (called `lanes_name`) if these are more than one; and a row of a run of `count` such parts.
  SizeNames Row(const Value* part, size_t first, int64_t lanes, const CExpr& lanes_name,
                int64_t count) const;
  // How many parts a run has.
  static SizeName Parts(int64_t count = 0) { return {count, "parts", "alike parts of the result"}; }

 private:
  const Node& region_;
  const KernelBuilder& builder_;
};

}  // namespace fusec
