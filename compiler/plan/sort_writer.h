#pragma once

#include <utility>

#include "compiler/ir/sorted_parts.h"
#include "compiler/plan/line_writer.h"

namespace fusec {

// What kernels that sort lines, or search in sorted ones, have in common.
class SortWriter : protected LineWriter {
 protected:
  using LineWriter::LineWriter;

  CExpr Order() const { return node_.Int("largest") != 0 ? "true" : "false"; }
  int64_t Most(const Expr& size) const { return builder_.ranges().IntervalOf(size).high; }
  // Stores `value`, the element at position `at` of its line, at `place` of the results.
  void StoreElement(const Exprs& place, const CExpr& value, const CExpr& at);
  // Declares the line, and the part of it, to which a segment belongs.
  std::pair<Expr, Expr> LineAndPart(const CExpr& segment, const SortedParts& parts);
  SizeNames PartNames() const { return Only({0, "part", "elements of a part of a line"}); }
  SizeNames KeptNames() const { return Only({0, "kept", "elements that are kept of each part"}); }
};

}  // namespace fusec
