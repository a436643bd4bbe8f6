#include "passes/split_lines.h"

#include "passes/split_sorts.h"

namespace fusec {

Result<bool> SplitLines(Graph& graph, const PassOptions&, PassReport&) {
  return SplitTopK(graph, /*all_long_lines=*/true);
}

}  // namespace fusec
