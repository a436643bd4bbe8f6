#pragma once

#include "compiler/plan/loop_segments.h"
#include "compiler/plan/part_names.h"
#include "compiler/plan/plan_region.h"

namespace fusec {

// What kernels that loop over the elements of a region's results have in common. The segments of a
// result are those of loop_segments.h; an element, or a vector of them, is number `i`.
class LoopWriter {
 protected:
  LoopWriter(const Node& region, KernelBuilder& builder, LoopSegments segments)
      : region_(region),
        builder_(builder),
        lowering_(region, builder),
        segments_(std::move(segments)) {}

  Shape Lead() const;
  Shape Inner(ShapeRef shape) const { return Shape(shape.begin() + segments_.lead, shape.end()); }

  // Stores element `index` of a group's segments.
  void StoreGroup(const LoopGroup& group, ArrayRef<Expr> index);
  // Stores element number `i` of a group, or vector number `i` of `lanes` elements. `names` are the
  // names of the sizes of a row.
  void StoreElementOfRow(const LoopGroup& group, int64_t lanes, const SizeNames& names);
  // The same for element or vector number `i` of the row with these leading coordinates.
  void StoreElementOf(Exprs row, const LoopGroup& group, int64_t lanes, const SizeNames& names);

  // How many consecutive elements a thread computes. That is 16 bytes of the widest result, or
  // `at_least` elements if that is more, or what the launch shape requests; fewer if not all of
  // `extents` are multiples of it, at least 8 bytes; else 1.
  int64_t LanesOf(const LoopGroup& group, ArrayRef<Expr> extents, int64_t at_least = 0) const;
  // The same for rows, and the parts that a group writes, which must begin and end at multiples.
  int64_t LanesOfRows(const LoopGroup& group) const;
  CExpr LanesName(int64_t lanes);
  // Opens a loop over the elements of a vector, and returns the lane.
  Expr OpenVector(int64_t lanes);
  // const int row = <value>; for the innermost scope, with 0 <= row < extent.
  void LocalCoordinate(const std::string& name, const Expr& value, const Expr& extent,
                       const SizeNames& names);

  const Node& region_;
  KernelBuilder& builder_;
  RegionLowering lowering_;
  LoopSegments segments_;
  PartTables tables_;
  const PartNames part_names_{region_, builder_};

 private:
  void StorePart(const LoopGroup& group, ArrayRef<Expr> index);
  Exprs RowOfThread(const Expr& per_row, const SizeNames& names);
  void AddVectorOf(ShapeRef inner, const Expr& i, int64_t lanes, const SizeNames& names,
                   Exprs& index);
};

}  // namespace fusec
