#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/kernel/kernel_builder.h"

namespace fusec {

// Transforms the loop in which a thread looks up rows and folds them. In the plain loop, each row
// waits for its id, and the next id for the row. The body ends with the statement that folds; the
// statements before it are executed for several rows first, whose elements are kept in arrays, so
// that their loads overlap:
//
//   for (int group = 0; group < kEntries; group += kRowsTogether) {
//     Vector<float, kLanes> table_vectors[kRowsTogether];
//     #pragma unroll
//     for (int member = 0; member < kRowsTogether; ++member) {
//       const int entry = group + member;
//       ..
//       table_vectors[member] = LoadVector<kLanes>(..);
//     }
//     #pragma unroll
//     for (int member = 0; member < kRowsTogether; ++member) {
//       .. total[lane] += table_vectors[member].at[lane] ..
//     }
//   }
//
// `header` counts up to `last`, which equals `count` if that is known. Returns the statements that
// replace the loop: the loop itself if its body does not have this form.
std::vector<Statement> WithRowsTogether(KernelBuilder& builder, Statement header, const CExpr& last,
                                        std::optional<int64_t> count);

// The same for a thread's rows of a tile, if it computes elements from other tensors at the same
// positions. In the plain loop, each load waits for the previous store, since the compiler cannot
// know that they access different memory. The first `locals` statements of the body are locals that
// may be loads; then it computes and stores the elements. A thread has at most `rows` rows; for a
// single row, or without a load, the loop is unchanged.
std::vector<Statement> WithLoadsTogether(KernelBuilder& builder, Statement header,
                                         const CExpr& last, size_t locals, int64_t rows);

}  // namespace fusec
