#include "runtime/src/cuda/cuda_input_copy.h"

#include <algorithm>

namespace fusec::runtime {

KernelOperation CudaInputCopy::CopyOf(std::span<const Segment> segments) const {
  uint64_t most_words = 0;
  for (const Segment& segment : segments) most_words = std::max(most_words, segment.words);
  const uint64_t blocks = (most_words + kBlockSize - 1) / kBlockSize;  // blocks per segment
  KernelOperation kernel;
  kernel.name = "copy_inputs";
  kernel.function = function_;
  kernel.block_size = kBlockSize;
  kernel.blocks = static_cast<unsigned>(blocks * segments.size());
  for (const auto& [to, from, words] : segments) {
    kernel.arguments.insert(kernel.arguments.end(), {to, from, words});
  }
  kernel.arguments.resize(3 * kMostSegments);  // one struct
  kernel.arguments.push_back(blocks);
  kernel.starts = {0, 3 * kMostSegments};
  return kernel;
}

}  // namespace fusec::runtime
