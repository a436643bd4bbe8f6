#include "compiler/reference/true_sizes.h"

#include <algorithm>

namespace fusec {

void TakeTrueSizes(const Graph& graph, std::vector<ReferenceTensor>& outputs) {
  if (graph.run_time_sizes.empty()) return;
  const std::vector<int64_t> sizes = std::move(outputs.back().ints);
  outputs.pop_back();
  for (size_t k = 0; k < sizes.size(); ++k) {
    const auto& [output, axis] = graph.run_time_sizes[k];
    int64_t& dim = outputs[output].dims[axis];
    dim = std::clamp<int64_t>(sizes[k], 0, dim);
  }
  for (ReferenceTensor& tensor : outputs) {
    const auto count = static_cast<size_t>(tensor.element_count());
    if (IsFloat(tensor.dtype)) {
      tensor.reals.resize(count);
    } else {
      tensor.ints.resize(count);
    }
  }
}

}  // namespace fusec
