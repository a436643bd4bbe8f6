#pragma once

#include <memory>
#include <string>

#include "tests/property/compiled_graphs.h"

namespace fusec {

// Kernels of products that tensor cores make, of those that tuning would try, run by the emulation of a GPU.
class EmulatedProducts {
 public:
  // For many rows, tuning tries tiles of warps first and then those of warpgroups, which clusters may share.
  enum class Tiles { kOfWarps, kOfWarpgroups };
  // Depth and columns are no multiples of tiles. Of f32, `precision` says how its products are made.
  static Result<std::unique_ptr<EmulatedProducts>> Make(Tiles tiles, Dtype dtype, const std::string& precision);
  // What is wrong with the answers to `rows` rows of all kernels that make so many, or "".
  std::string Wrong(int64_t rows) const;

 private:
  EmulatedProducts() = default;
  std::unique_ptr<Graph> graph_;
  std::vector<const Graph*> graphs_;  // the same one, side by side
  std::unique_ptr<CompiledGraphs> compiled_;
  double relative_ = 0;
};

}  // namespace fusec
