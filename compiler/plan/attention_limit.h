#pragma once

#include <optional>

#include "compiler/kernel/region_lowering.h"
#include "compiler/region/attention_parts.h"

namespace fusec {

// Attention over a cache of which only the first rows are in use: how many that are is data, such
// as the lengths of sequences. A mask hides all keys behind them, so that a kernel need not read
// these, nor their values, which zeros may replace. Whatever such a row holds has no influence
// then: ONNX would multiply a NaN in it by zero, and get NaN.

// A row is in use only if its number is less than value[index] + plus; at the other side, only if
// it is not.
struct RowLimit {
  const Value* value = nullptr;  // inside the region, of integers
  Exprs index;
  int64_t plus = 0;
  const Value* comparison = nullptr;  // that says so
};

// An element of a tensor, for the rows in front of a limit; zeros replace the others.
struct LimitedRow {
  const Value* rows = nullptr;
  Exprs index;
  RowLimit limit;
};
// The element `element` of the value number `key`, an operand of the second product.
std::optional<LimitedRow> LimitOfValues(const RegionLowering& lowering, const AttentionParts& parts,
                                        ArrayRef<Expr> element, const Expr& key,
                                        const Ranges& ranges);

// The queries of a block, from the local `first_query` on.
struct TileOfQueries {
  int count = 0;
  CExpr name;  // of the count
};
// The sizes of attention.
struct AttentionExtents {
  Expr queries, keys;
  SizeName queries_name, keys_name;
  TileOfQueries tile;
};
// The rows that a block with the local `head` has to read.
struct UsedRows {
  bool has_limit = false;   // the local `used_keys` is declared, from which on no query has to read
  bool values_end = false;  // and `used_values`, from which on all values are zeros
  // The comparison of the mask, which holds for all keys in front of the local `seen_by_all`.
  const Value* comparison = nullptr;
  bool has_begin = false;  // the local `unseen_keys` is declared: no query reads so many first rows
};
// Declares these locals if a mask hides the keys behind a limit that is data or depends on the
// query, or those in front of one (a window), and `used_values` if zeros also replace values.
UsedRows DeclareUsedRows(RegionLowering& lowering, const AttentionParts& parts,
                         const AttentionExtents& extents);

}  // namespace fusec
