#pragma once

#include <vector>

#include "compiler/kernel/kernel_builder.h"

namespace fusec {

// Closes a loop over the rows of a result of `region`, on the CPU. If the region looks up rows of
// large tables, the loop prefetches the table rows that a later iteration looks up: random rows of
// a large table lie in no cache, and a core that waits for the row that it is about to read has
// only a few such reads under way.
//
//   const long long row_ahead = row + kRowsAhead;
//   ..
//     const long long ids_value = ids[row * kIdsColumns + entry];
//     const long long ids_index = CheckedIndex(ids_value, kTableRows, ..);
//     if (row_ahead < batch) {
//       const long long ids_index_ahead =
//           IndexOrZero(ids[row_ahead * kIdsColumns + entry], kTableRows);
//       PrefetchElements(table + ids_index_ahead * kTableColumns, kTableColumns);
//     }
//     for (long long column = 0; column < kTableColumns; ++column) {
//       const float table_value = table[ids_index * kTableColumns + column];
//
// Look-ups whose ids the kernel reads from memory at a position that depends on the row take part,
// and those of bags of variable length, whose ids lie one after the other; others are left alone.
// `rows` is the number of rows in all blocks, in the index type.
void CloseRowsOnCpu(KernelBuilder& builder, const Node& region, Statement header,
                    const CExpr& rows);

}  // namespace fusec
