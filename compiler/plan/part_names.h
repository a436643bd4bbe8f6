#pragma once

#include <string>

#include "compiler/kernel/size_names.h"

namespace fusec {

// The names that a kernel gives to the sizes of the parts of its results. One loop computes each
// part, which is a value of the region or a run of similar values (part_run.h).
class PartNames {
 public:
  PartNames(const Node& region, const KernelBuilder& builder)
      : region_(region), builder_(builder) {}

  // A part that is a whole result has the name of the result.
  std::string NameOf(const Value* part) const;
  SizeName Extent(const Value* part, size_t axis) const;
  // The names in the number of elements of a result: its columns per row, if it consists of rows.
  SizeNames Elements(const Value* result) const;
  // The names in the size of a part's row, which spans the axes from `first` on. It is counted in
  // elements or, if `lanes` is above 1, in vectors of `lanes` elements (called `lanes_name`). A run
  // of `count` such parts has the same names.
  SizeNames Row(const Value* part, size_t first, int64_t lanes, const CExpr& lanes_name,
                int64_t count) const;
  // The number of parts of a run.
  static SizeName Parts(int64_t count = 0) {
    return {count, "parts", "similar parts of the result"};
  }

 private:
  const Node& region_;
  const KernelBuilder& builder_;
};

}  // namespace fusec
