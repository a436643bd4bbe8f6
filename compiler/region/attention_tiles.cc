#include "compiler/region/attention_tiles.h"

#include <algorithm>

#include "compiler/region/reducers.h"

namespace fusec {

namespace {

constexpr int kMostWarps = 4;
// Head sizes from which on fewer keys fit in a tile.
constexpr int64_t kShort = 64, kLong = 128;

bool IsFloat(const AttentionSizes& sizes) { return sizes.arithmetic != Arithmetic::kHalf; }
bool AreLong(const AttentionSizes& sizes) { return std::max(sizes.depth, sizes.columns) > kLong; }

// Terms of sums (multiply-adds) per cycle and multiprocessor. Tensor cores of an H100 do 1024 in
// TF32 and 2048 in f16 per cycle, of which mma.sync reaches about 60 %; a split f32 takes three
// products and the splitting. The block program reads two 32-bit words per term, keeps some of them
// in registers, and can read 32 words per cycle.
double TermsInACycle(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::kHalf:
      return 1200;
    case Arithmetic::kTf32:
      return 600;
    default:
      return 160;  // split
  }
}
constexpr double kBlockProgramTerms = 24;

// Cycles per score for softmax and other ops: about 25 register instructions at 128 lanes per cycle
// in tiles, and three passes over shared memory at 32 lanes per cycle in a block program.
constexpr double kTileScore = 0.2, kBlockProgramScore = 0.5;

}  // namespace

AttentionSizes SizesOf(const AttentionParts& parts, const Ranges& ranges,
                       const std::string& precision) {
  const TensorType& type = parts.values->result()->type;
  return {ranges.IntervalOf(type.shape[type.shape.size() - 2]).high,
          ranges.IntervalOf(parts.scores->result()->type.shape.back()).high,
          MatMulDepth(*parts.scores).AsConstant().value_or(0),
          type.shape.back().AsConstant().value_or(0), ArithmeticOf(type.dtype, precision)};
}

int QueriesOfBlock(const AttentionSizes& sizes) {
  // A power of two, so that the rows are divided evenly among the warps.
  int warps = 1;
  while (warps < kMostWarps && warps * kWarpQueries < sizes.queries) warps *= 2;
  return warps * kWarpQueries;
}

int KeysOfTile(const AttentionSizes& sizes) {
  // Fewer keys per tile if tiles and sums take more registers and shared memory.
  const int most = IsFloat(sizes) ? (sizes.depth <= kShort ? 32 : 16) : AreLong(sizes) ? 32 : 64;
  return static_cast<int>(std::min<int64_t>(most, InSteps(std::max<int64_t>(sizes.keys, 1))));
}

AttentionCycles EstimateCycles(const AttentionSizes& sizes) {
  const auto scores = static_cast<double>(sizes.queries) * static_cast<double>(sizes.keys);
  const double made =
      static_cast<double>(InSteps(sizes.queries)) * static_cast<double>(InSteps(sizes.keys));
  const auto terms = static_cast<double>(sizes.depth + sizes.columns);
  const auto terms_made = static_cast<double>(InSteps(sizes.depth) + InSteps(sizes.columns));
  return {made * (terms_made / TermsInACycle(sizes.arithmetic) + kTileScore),
          scores * (terms / kBlockProgramTerms + kBlockProgramScore)};
}

}  // namespace fusec
