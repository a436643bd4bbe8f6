#include "compiler/region/attention_tiles.h"

#include <algorithm>

#include "compiler/region/reducers.h"

namespace fusec {

namespace {

constexpr int kMostWarps = 4;
// Longer keys and values leave less room.
constexpr int64_t kShort = 64, kLong = 128;

bool IsFloat(const AttentionSizes& sizes) { return sizes.arithmetic != Arithmetic::kHalf; }
bool AreLong(const AttentionSizes& sizes) { return std::max(sizes.depth, sizes.columns) > kLong; }

// Terms of sums that a multiprocessor adds in a cycle. Tensor cores of an H100 have 1024 of TF32
// and 2048 of halves, of which mma.sync reaches about 60 %; a split float is three products and
// their splitting. The block program reads two words of 32 bits for a term, keeps some of them in
// registers, and is given 32 words a cycle.
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

// What softmax and other ops take for a score: some 25 instructions of registers in tiles, and
// three passes over shared memory in a block program, of 128 and of 32 lanes in a cycle.
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
  // A power of two, so that warps share out rows evenly.
  int warps = 1;
  while (warps < kMostWarps && warps * kWarpQueries < sizes.queries) warps *= 2;
  return warps * kWarpQueries;
}

int KeysOfTile(const AttentionSizes& sizes) {
  // Fewer keys at a time where tiles and sums take more registers and memory.
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
