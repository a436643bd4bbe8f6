#pragma once

#include <memory>
#include <string>

#include "tests/property/compiled_graphs.h"

namespace fusec {

// Tensor-core product kernels, of the kinds that tuning would try, run by the emulated GPU.
class EmulatedProducts {
 public:
  // For many rows, tuning tries warp tiles first and then warpgroup tiles, which clusters may share.
  enum class Tiles { kOfWarps, kOfWarpgroups };
  // Depth and columns are not multiples of the tile sizes. For f32, `precision` is the precision of products.
  static Result<std::unique_ptr<EmulatedProducts>> Make(Tiles tiles, Dtype dtype, const std::string& precision);
  // Runs all kernels that can compute `rows` rows; returns what is wrong with their answers, or "".
  std::string Wrong(int64_t rows) const;

 private:
  EmulatedProducts() = default;
  std::unique_ptr<Graph> graph_;
  std::vector<const Graph*> graphs_;  // the same graph several times
  std::unique_ptr<CompiledGraphs> compiled_;
  double relative_ = 0;
};

}  // namespace fusec
