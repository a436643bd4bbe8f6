#pragma once

#include "compiler/plan/attention_limit.h"
#include "compiler/plan/attention_tiling.h"

namespace fusec {

// The results of a block of an attention kernel, in its registers.
struct AttentionResults {
  const Node& region;
  const AttentionParts& parts;
  const AttentionTiling& tiling;
  int64_t columns;  // of a result
  Expr queries;
  SizeName queries_name;
  TileOfQueries tile;
};
// Stores the results through shared memory, in vectors. The region's result is made of them by
// `views`; `index` gives the index of an element of the second product. Returns false if the result
// does not consist of vectors, or if shared memory is too small.
bool StoreVectors(const AttentionResults& results, ArrayRef<const Node*> views,
                  KernelBuilder& builder,
                  function_ref<Exprs(const Expr& row, const Expr& column)> index);

}  // namespace fusec
