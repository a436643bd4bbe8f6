#pragma once

#include <optional>

#include "compiler/kernel/region_lowering.h"
#include "compiler/region/attention_parts.h"

namespace fusec {

// Attention over a cache of which only the first rows are in use: how many that are is data, such
// as the lengths of sequences. A mask gives all keys behind them scores of -infinity, and zeros
// replace their values, so that a kernel need not read them.

// A row is in use only if its number is less than value[index] + plus.
struct RowLimit {
  const Value* value = nullptr;  // inside the region, of integers
  Exprs index;
  int64_t plus = 0;
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

// The sizes of attention.
struct AttentionExtents {
  Expr queries, keys;
  SizeName keys_name;
};
// Declares the locals `used_values`, from which on all values are zeros, and `used_keys`, from
// which on no query has anything to read, for the local `head`. Returns false and declares nothing
// unless a mask hides keys and zeros replace values from limits on that are data.
bool DeclareUsedRows(RegionLowering& lowering, const AttentionParts& parts,
                     const AttentionExtents& extents);

}  // namespace fusec
