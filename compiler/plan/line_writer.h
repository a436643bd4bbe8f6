#pragma once

#include <string>

#include "compiler/kernel/idioms.h"
#include "compiler/plan/plan_region.h"

namespace fusec {

// What kernels that work on the lines of a tensor along one axis have in common. A region of their
// class has exactly one node.
class LineWriter {
 protected:
  LineWriter(const Node& region, KernelBuilder& builder);

  bool is_cpu() const { return builder_.target() == TargetKind::kCpu; }
  // Chooses one thread for each of `count` things of a kind, called `line`; the local `variable` is
  // the number of the thread's own.
  void OpenThreads(const Expr& count, const std::string& variable, const std::string& line,
                   const std::string& where);
  // The same for the lines of a tensor; `lines` are the dims other than the axis. Returns the
  // coordinates of the line.
  Exprs OpenLines(ShapeRef lines, const std::string& variable = "row",
                  const std::string& line = "line", const std::string& where = "along the axis");
  // Chooses one block per line, with threads for `elements` of it at a time, but no more than
  // `most`. Returns the coordinates of the block's line.
  Exprs OpenBlocks(ShapeRef lines, int64_t elements, int64_t most);
  static Shape Without(ShapeRef shape, int64_t axis);
  static Exprs Insert(Exprs line, int64_t axis, const Expr& at);

  void OpenLoop(const std::string& variable, const Expr& extent);
  void CloseLoop(const std::string& variable, const Expr& extent, const SizeNames& names);
  // The name of the extent of an axis.
  SizeNames Extent(const Value* value, int64_t axis) const;

  const Node& region_;
  KernelBuilder& builder_;
  RegionLowering lowering_;
  const Node& node_;
  std::string type_;  // the index type
};

}  // namespace fusec
