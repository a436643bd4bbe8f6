#include "compiler/plan/matmul/drawing.h"

#include <gtest/gtest.h>

#include "compiler/plan/attention_drawing.h"

namespace fusec {
namespace {

constexpr size_t kMostLines = 14;
constexpr size_t kMostColumns = 100 - sizeof("// drawing : ") + 1;

// A tile of `row_warps` x `column_warps` warps, in which `depth` warps share each sum.
schedule::Tile ByWarps(int rows, int columns, int chunk_bytes, int row_warps, int column_warps,
                       int depth, int stages) {
  return {{rows, columns, stages, {depth, 1}}, chunk_bytes, row_warps, column_warps};
}
schedule::Warpgroup ByWarpgroups(int rows, int columns, int stages, int blocks) {
  return {{rows, columns, stages, {1, blocks}}};
}

std::string Text(const Drawing& drawing) {
  std::string text = "\n";
  for (const std::string& line : drawing) text += line + "\n";
  return text;
}

void ExpectToFit(const Drawing& drawing) {
  EXPECT_LE(drawing.size(), kMostLines) << Text(drawing);
  for (const std::string& line : drawing) EXPECT_LE(line.size(), kMostColumns) << line;
}

TEST(Drawing, TileByWarps) {
  DrawnProduct drawn;
  drawn.arithmetic = Arithmetic::kSplit;
  drawn.row_bytes = 2000;
  drawn.shared_bytes = 78336;
  EXPECT_EQ(Text(DrawTile(ByWarps(32, 64, 256, 1, 2, 4, 3), drawn)), R"(
a block's tile, 32 x 64 of the product a x b^T; warps of a part split each chunk
             columns 0..31   32..63
           +---------------+---------------+
rows 0..31 | warps 0 2 4 6 | warps 1 3 5 7 |
           +---------------+---------------+
78336 bytes of shared memory: a row is read in 8 chunks of 256 bytes, padded by 16:
chunk k    | a 32 x 272 | b 64 x 272 |  stage k % 3, 26112 bytes
at the end | sums f32[4][32][72] |  36864 bytes, overwriting the stages
copied     | 0..1 | 2 | 3 | 4 | ... |  by cp.async
multiplied |      | 0 | 1 | 2 | ... |  3xTF32: a_low b + a b_low + a b
)");
}

TEST(Drawing, TileByWarpsOfFewChunks) {
  DrawnProduct drawn;
  drawn.is_made = true;
  drawn.row_bytes = 100;
  drawn.shared_bytes = 55296;
  EXPECT_EQ(Text(DrawTile(ByWarps(64, 64, 128, 2, 2, 2, 3), drawn)), R"(
a block's tile, 64 x 64 of the product a x b^T; warps of a part split each chunk
              columns 0..31   32..63
            +---------------+-----------+
rows 0..31  | warps 0 4     | warps 2 6 |
rows 32..63 | warps 1 5     | warps 3 7 |
            +---------------+-----------+
55296 bytes of shared memory: a row is read in one chunk of 128 bytes, padded by 16:
chunk k    | a 64 x 144 | b 64 x 144 |  stage k % 3, 18432 bytes
at the end | sums f32[2][64][72] |  36864 bytes, overwriting the stages
made       | 0 |   |  a by all threads, while b is copied
multiplied |   | 0 |  by mma.sync
)");
}

TEST(Drawing, TileOfACluster) {
  DrawnProduct drawn;
  drawn.arithmetic = Arithmetic::kSplit;
  drawn.shared_bytes = 197632;
  EXPECT_EQ(Text(DrawTile(ByWarpgroups(128, 128, 3, 2), drawn)), R"(
the tile of a cluster of 2 blocks, 128 x 128 of the product a x b^T
               columns 0..127
             +--------------------------------+
rows 0..63   | warpgroup 0, each warp 16 rows |  warpgroup 2 fills the stages
rows 64..127 | warpgroup 1, each warp 16 rows |
             +--------------------------------+
of n chunks, block r of the cluster multiplies n r / 2 up to n (r + 1) / 2; then it
stores 64 rows from 64 r on, adding the sums in the shared memory of the 2 blocks
197632 bytes of shared memory: a row is read in chunks of 256 bytes:
chunk k    | a 128 x 256 | b 128 x 128 | b_low 128 x 128 |  stage k % 3, 65536 bytes
barriers   | filled[3] | used[3] | units f32[128] |  and the units of b's halves
at the end | sums f32[128][136] |  69632 bytes, overwriting the stages
filled     | 0..2 | 3 | 4 | 5 | ... |  a by cp.async, b by bulk copies
multiplied | 0    | 1 | 2 | 3 | ... |  3xf16: a b + (a_low b + a b_low) / 2048
)");
}

TEST(Drawing, FitsIntoAHeader) {
  for (const Arithmetic arithmetic : {Arithmetic::kHalf, Arithmetic::kSplit, Arithmetic::kFloat8}) {
    for (const bool is_made : {false, true}) {
      const DrawnProduct drawn{arithmetic, is_made, 1 << 20, 232448};
      for (const auto& tile : {ByWarps(128, 64, 128, 4, 2, 1, 4), ByWarps(64, 128, 128, 2, 4, 1, 3),
                               ByWarps(16, 32, 512, 1, 1, 8, 3)})
        ExpectToFit(DrawTile(tile, drawn));
      for (const int columns : {64, 128, 256}) {
        for (const int blocks : {1, 2, 8})
          ExpectToFit(DrawTile(ByWarpgroups(128, columns, 6, blocks), drawn));
      }
    }
  }
  for (const int warps : {1, 2, 8}) ExpectToFit(DrawColumns({8 / warps, warps, 8, 8}));
  for (const int queries : {32, 64, 256}) {
    ExpectToFit(DrawAttention({queries, 32, 528, 528, false, {}}));
    ExpectToFit(DrawAttention({queries, 64, 256, 256, queries >= 64, {}}));
  }
}

TEST(Drawing, Attention) {
  EXPECT_EQ(Text(DrawAttention({96, 32, 144, 80, false, {}})), R"(
a block's scores, 96 queries of a head by 32 keys at a time
                 keys 0..31   32..63   64..95   ...
               +------------+--------+--------+-----+
queries 0..15  | warp 0     | warp 0 | warp 0 | ... |
queries 16..31 | warp 1     | warp 1 | warp 1 | ... |
...            | ...        | ...    | ...    | ... |
queries 80..95 | warp 5     | warp 5 | warp 5 | ... |
               +------------+--------+--------+-----+
28160 bytes of shared memory, each row padded by 16:
queries    | 96 x 144 |  read once
tile t     | keys 32 x 144 | values 32 x 80 |  place t % 2, 7168 bytes
fetched    | 0 | 1 | 2 | 3 | ... |
used       |   | 0 | 1 | 2 | ... |  softmax and sums of values in registers
)");
}

TEST(Drawing, AttentionOfFewKeys) {
  EXPECT_EQ(Text(DrawAttention({64, 64, 128, 128, true, 1})), R"(
a block's scores, 64 queries of a head by 64 keys at a time
                keys 0..63
              +-------------+
queries 0..63 | warpgroup 0 |
              +-------------+
24576 bytes of shared memory, in panels of 128 bytes per row:
queries    | 64 x 128 |  read once
tile       | keys 64 x 128 | values 64 x 128 |  16384 bytes
fetched    | 0 |   |
used       |   | 0 |  softmax and sums of values in registers
)");
}

}  // namespace
}  // namespace fusec
