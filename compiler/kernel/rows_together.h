#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/kernel/kernel_builder.h"

namespace fusec {

// The loop of a thread that looks rows up and folds them, in whose order a row would wait for its
// id, and the next one for the row. Of its body, which ends with the statement that folds, what
// comes before is done for several rows first: their elements lie in arrays then.
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
// `header` goes up to `last`, which is `count` if that is known. Returns what stands in the place
// of the loop: it alone, where its body has another form.
std::vector<Statement> WithRowsTogether(KernelBuilder& builder, Statement header, const CExpr& last,
                                        std::optional<int64_t> count);

// The same of a thread's rows of a tile, of which it makes elements from others at the same places:
// a load would wait for the store before it, since the compiler cannot tell that they are of
// different memory. The body begins with `locals` that may be loaded, before what makes and stores
// the elements. A thread has at most `rows` rows; of one alone, or without a load, the loop stays
// as it is.
std::vector<Statement> WithLoadsTogether(KernelBuilder& builder, Statement header,
                                         const CExpr& last, size_t locals, int64_t rows);

}  // namespace fusec
