#include "compiler/plan/region_kernels.h"

#include <gtest/gtest.h>

namespace fusec {
namespace {

constexpr const char* kProduct =
    "graph @g(%x \"x\": f32[b, 512], %w \"w\": f32[256, 512]) symbols(b in 1..65536) {\n"
    "  %y = region(%x, %w) {class = \"matmul\"} : f32[b, 256] {\n"
    "    graph @matmul(%x: f32[b, 512], %w: f32[256, 512]) {\n"
    "      %y = matmul(%x, %w) {transpose_a = 0, transpose_b = 1} : f32[b, 256]\n"
    "      return %y\n    }\n  }\n"
    "  return %y \"y\"\n}\n";

// x [b, terms] by weights [columns, terms].
std::string Layer(int terms, int columns, const std::string& dtype = "f32") {
  const std::string k = std::to_string(terms), n = std::to_string(columns);
  const std::string x = dtype + "[b, " + k + "]", w = dtype + "[" + n + ", " + k + "]";
  const std::string y = dtype + "[b, " + n + "]";
  return "graph @g(%x \"x\": " + x +
         ") symbols(b in 1..65536) {\n"
         "  %w = constant() payload \"0\" : " +
         w +
         "\n"
         "  %y = region(%x, %w) {class = \"matmul\"} : " +
         y +
         " {\n"
         "    graph @matmul(%x: " +
         x + ", %w: " + w +
         ") {\n"
         "      %y = matmul(%x, %w) {transpose_a = 0, transpose_b = 1} : " +
         y +
         "\n"
         "      return %y\n    }\n  }\n"
         "  return %y \"y\"\n}\n";
}

constexpr const char* kManyMatrices =
    "graph @g(%x \"x\": f32[128, b, 756], %w \"w\": f32[128, 32, 756]) symbols(b in 1..65536) {\n"
    "  %y = region(%x, %w) {class = \"matmul\"} : f32[128, b, 32] {\n"
    "    graph @matmul(%x: f32[128, b, 756], %w: f32[128, 32, 756]) {\n"
    "      %y = matmul(%x, %w) {transpose_a = 0, transpose_b = 1} : f32[128, b, 32]\n"
    "      return %y\n    }\n  }\n"
    "  return %y \"y\"\n}\n";

// x, repeated to 32 matrices of 3024 terms, by weights of `columns`: the kernel makes the repetition.
std::string MadeOperand(int columns) {
  const std::string n = std::to_string(columns), y = "f32[32, b, " + n + "]";
  const std::string w = "f32[32, " + n + ", 3024]";
  return "graph @g(%x \"x\": f32[b, 3024]) symbols(b in 1..65536) {\n"
         "  %w = constant() payload \"0\" : " +
         w +
         "\n"
         "  %y = region(%x, %w) {class = \"matmul\"} : " +
         y +
         " {\n"
         "    graph @matmul(%x: f32[b, 3024], %w: " +
         w +
         ") {\n"
         "      %a = relu(%x) : f32[b, 3024]\n"
         "      %s = expand(%a) {shape = dims[32, b, 3024]} : f32[32, b, 3024]\n"
         "      %y = matmul(%s, %w) {transpose_a = 0, transpose_b = 1} : " +
         y +
         "\n"
         "      return %y\n    }\n  }\n"
         "  return %y \"y\"\n}\n";
}

constexpr const char* kSoftmaxSum =
    "graph @g(%x \"x\": f32[b, 64]) symbols(b in 1..65536) {\n"
    "  %s = region(%x) {class = \"row_reduction\"} : f32[b] {\n"
    "    graph @reduce_sum(%x: f32[b, 64]) {\n"
    "      %s = reduce_sum(%x) {axes = [1], keepdims = 0} : f32[b]\n"
    "      return %s\n    }\n  }\n"
    "  return %s \"s\"\n}\n";

struct Planner {
  explicit Planner(const std::string& text, TargetKind target = TargetKind::kGpu,
                   bool warpgroups = false, const char* precision = "highest")
      : graph(*Parse(text)),
        options{target, precision, 90, warpgroups},
        kernels(*graph->nodes.back(), "k00", {}, options, *graph) {}
  // "from..to suffix" of every variant.
  std::vector<std::string> Ranges(const std::vector<Winner>& winners) const {
    std::vector<std::string> ranges;
    for (const Variant& variant : kernels.Tuned(winners)) {
      ranges.push_back(std::to_string(variant.from) + ".." +
                       (variant.to == INT64_MAX ? "" : std::to_string(variant.to)) +
                       variant.suffix);
    }
    return ranges;
  }
  std::unique_ptr<Graph> graph;
  PlanOptions options;
  RegionKernels kernels;
};

KernelChoice Rows(int most) {
  KernelChoice choice;
  choice.product.kind = MatMulKernel::Kind::kRows;
  choice.product.most_rows = most;
  return choice;
}

KernelChoice Blocks(int size) {
  KernelChoice choice;
  choice.shape.block_size = size;
  return choice;
}

using Texts = std::vector<std::string>;

TEST(RegionKernels, PlansWithoutMeasurementsAndWhereTheyAgree) {
  const Planner product(kProduct);
  Texts planned;
  for (const Variant& variant : product.kernels.Planned())
    planned.push_back(std::to_string(variant.from) + variant.suffix);
  EXPECT_EQ(planned, Texts({"0_rows_1", "2_rows_4", "5_rows_by_8", "49_tile_16x32",
                            "769_tile_32x64", "3073_tile_128x64", "8193"}));
  EXPECT_EQ(product.Ranges({{1, {}}, {4096, {}}}), product.Ranges({}));
}

TEST(RegionKernels, PlansTilesByWarpgroupsForSplitFloats) {
  const Planner product(Layer(512, 256), TargetKind::kGpu, /*warpgroups=*/true);
  EXPECT_EQ(product.Ranges({}), Texts({"0..1_rows_1", "2..4_rows_4", "5..48_rows_by_8",
                                       "49..528_tile_16x32", "529..1024_warpgroup_64x64_cluster_2",
                                       "1025..6272_warpgroup_64x64", "6273.._warpgroup_128x128"}));
  // Sums too short for two blocks.
  const Planner shorter(Layer(256, 256), TargetKind::kGpu, /*warpgroups=*/true);
  EXPECT_EQ(shorter.Ranges({}),
            Texts({"0..1_rows_1", "2..4_rows_4", "5..48_rows_by_8", "49..528_tile_16x32",
                   "529..6272_warpgroup_64x64", "6273.._warpgroup_128x128"}));
}

TEST(RegionKernels, SharesLongSumsOutToClustersWhereTilesAreFew) {
  const Planner split(Layer(3456, 512), TargetKind::kGpu, /*warpgroups=*/true);
  EXPECT_EQ(split.Ranges({}),
            Texts({"0..1_rows_1", "2..4_rows_4", "5..16_rows_by_8",
                   "17..128_warpgroup_64x64_cluster_8", "129..256_warpgroup_64x64_cluster_4",
                   "257..512_warpgroup_64x64_cluster_2", "513..1024_warpgroup_64x64",
                   "1025..2112_warpgroup_64x128", "2113.._warpgroup_128x128"}));
  // The library is ahead of blocks alone.
  const Planner tf32(Layer(3456, 512), TargetKind::kGpu, /*warpgroups=*/true, "high");
  EXPECT_EQ(
      tf32.Ranges({}),
      Texts({"0..1_rows_1", "2..4_rows_4", "5..16_rows_by_8", "17..128_warpgroup_64x64_cluster_8",
             "129..256_warpgroup_64x64_cluster_4", "257..512_warpgroup_64x64_cluster_2", "513.."}));
}

TEST(RegionKernels, PlansWavesOfTilesBeforeTheLibrary) {
  const Planner product(Layer(512, 256), TargetKind::kGpu, /*warpgroups=*/true, "high");
  EXPECT_EQ(product.Ranges({}),
            Texts({"0..1_rows_1", "2..4_rows_4", "5..48_rows_by_8", "49..256_tile_16x32",
                   "257..512_warpgroup_64x64_cluster_4", "513..1024_warpgroup_64x64_cluster_2",
                   "1025..3136_warpgroup_64x64", "3137..8448_warpgroup_64x128", "8449.."}));
  // One wave where sums are longer, and of square tiles where columns fill no wide ones.
  const Planner longer(Layer(1024, 512, "f16"), TargetKind::kGpu, /*warpgroups=*/true);
  EXPECT_EQ(longer.Ranges({}),
            Texts({"0..1_rows_1", "2..4_rows_4", "5..8_rows_8", "9..128_tile_16x32",
                   "129..256_warpgroup_64x64_cluster_4", "257..512_warpgroup_64x64_cluster_2",
                   "513..1024_warpgroup_64x64", "1025.."}));
  const Planner few(Layer(256, 64, "f16"), TargetKind::kGpu, /*warpgroups=*/true);
  EXPECT_EQ(few.Ranges({}),
            Texts({"0..1_rows_1", "2..4_rows_4", "5..8_rows_8", "9..1056_tile_16x32",
                   "1057..16896_warpgroup_64x64", "16897.."}));
}

TEST(RegionKernels, LeavesProductsOfManyColumnsToTilesFromFewRowsOn) {
  const Planner wide(Layer(512, 3456), TargetKind::kGpu, /*warpgroups=*/true, "high");
  EXPECT_EQ(wide.Ranges({}), Texts({"0..1_rows_1", "2..4_rows_4", "5..32_tile_16x32",
                                    "33..64_warpgroup_64x64_cluster_2", "65..192_warpgroup_64x64",
                                    "193..576_warpgroup_64x128", "577.."}));
  const Planner split(Layer(512, 3456), TargetKind::kGpu, /*warpgroups=*/true);
  EXPECT_EQ(split.Ranges({}), Texts({"0..1_rows_1", "2..4_rows_4", "5..32_tile_16x32",
                                     "33..64_warpgroup_64x64_cluster_2", "65..128_warpgroup_64x64",
                                     "129..256_warpgroup_64x128", "257.._warpgroup_128x128"}));
  // Rows of halves too short to be shared out.
  const Planner half(Layer(512, 3456, "f16"), TargetKind::kGpu, /*warpgroups=*/true);
  EXPECT_EQ(half.Ranges({}),
            Texts({"0..1_rows_1", "2..4_rows_4", "5..32_tile_16x32", "33..192_warpgroup_64x64",
                   "193..576_warpgroup_64x128", "577.."}));
}

TEST(RegionKernels, LeavesAFewRowsMoreToGroupsOfThemWhereTilesHaveLittleWork) {
  const auto groups = [](int k, int n, const char* precision) {
    const Planner planner(Layer(k, n), TargetKind::kGpu, /*warpgroups=*/true, precision);
    for (const std::string& range : planner.Ranges({})) {
      if (range.ends_with("_rows_by_8")) return range;
    }
    return std::string();
  };
  EXPECT_EQ(groups(1024, 512, "highest"), "5..32_rows_by_8");
  EXPECT_EQ(groups(1024, 512, "high"), "5..24_rows_by_8");
  EXPECT_EQ(groups(1024, 1024, "highest"), "5..16_rows_by_8");
  EXPECT_EQ(groups(1024, 1024, "high"), "");
  EXPECT_EQ(groups(3456, 1024, "highest"), "");
  EXPECT_EQ(groups(256, 64, "highest"), "5..192_rows_by_8");
}

// What tiles of few rows fill, and what a larger tile would mostly leave empty, is theirs.
TEST(RegionKernels, PlansTilesByTheRowsThatFillThem) {
  const Planner many(kManyMatrices, TargetKind::kGpu, /*warpgroups=*/true);
  EXPECT_EQ(many.Ranges({}), Texts({"0..1_rows_1", "2..4_rows_4", "5..32_tile_16x32",
                                    "33..512_tile_64x32", "513.."}));
}

TEST(RegionKernels, LeavesTinySumsToThreadsThenToATileThenToTheLibrary) {
  const Planner tiny(Layer(13, 512));
  EXPECT_EQ(tiny.Ranges({}),
            Texts({"0..1_rows_1", "2..256_plain", "257..8192_tile_64x64", "8193.."}));
  const Planner half(Layer(13, 512, "f16"));
  EXPECT_EQ(half.Ranges({}), tiny.Ranges({}));
}

TEST(RegionKernels, ServesEveryNumberOfRowsByOneKernelThatCan) {
  for (const int k : {1, 13, 16, 17, 64, 256, 415, 512, 1024, 3456, 5000}) {
    for (const int n : {1, 16, 33, 100, 512, 1024, 2304, 3456, 5000}) {
      for (const char* precision : {"highest", "high"}) {
        for (const bool warpgroups : {false, true}) {
          const Planner planner(Layer(k, n), TargetKind::kGpu, warpgroups, precision);
          int64_t next = 0;
          for (const Variant& variant : planner.kernels.Planned()) {
            EXPECT_EQ(variant.from, next) << k << " " << n << " " << precision;
            EXPECT_GE(variant.to, variant.from) << k << " " << n << " " << precision;
            EXPECT_LE(variant.to, variant.choice.MostRows()) << k << " " << n << " " << precision;
            next = variant.to == INT64_MAX ? -1 : variant.to + 1;
          }
          EXPECT_EQ(next, -1) << k << " " << n << " " << precision;
        }
      }
    }
  }
}

using Texts = std::vector<std::string>;

TEST(RegionKernels, MakesOperandsInTilesThatReadWeightsOnce) {
  EXPECT_EQ(Planner(MadeOperand(512), TargetKind::kGpu, true).Ranges({}),
            (Texts{"0..1_rows_1", "2..4_rows_4", "5..16_tile_16x64", "17..32_tile_32x64", "33..64_warpgroup_64x128",
                   "65.._warpgroup_128x128"}));
  // Pairs of blocks share out the sums of TF32 while all of them run at once.
  EXPECT_EQ(Planner(MadeOperand(512), TargetKind::kGpu, true, "high").Ranges({}),
            (Texts{"0..1_rows_1", "2..64_warpgroup_64x128_cluster_2", "65..128_warpgroup_128x256_cluster_2",
                   "129.._warpgroup_128x256"}));
  EXPECT_EQ(Planner(MadeOperand(32), TargetKind::kGpu, true, "high").Ranges({}),
            (Texts{"0..1_rows_1", "2..4_rows_4", "5..32_tile_16x32", "33..256_warpgroup_64x64_cluster_2",
                   "257.._warpgroup_64x64"}));
  // Without warpgroups, and without a library that could.
  EXPECT_EQ(Planner(MadeOperand(512)).Ranges({}),
            (Texts{"0..1_rows_1", "2..4_rows_4", "5..16_tile_16x64", "17.._tile_64x128"}));
  for (const KernelChoice& choice : Planner(MadeOperand(512), TargetKind::kGpu, true).kernels.Candidates(128))
    EXPECT_NE(choice.product.kind, MatMulKernel::Kind::kLibrary) << choice.Words();
}

TEST(RegionKernels, PlansNarrowTilesForNarrowProducts) {
  const Planner narrow(Layer(512, 16), TargetKind::kGpu, /*warpgroups=*/true);
  EXPECT_EQ(narrow.Ranges({}), Texts({"0..1_rows_1", "2..4_rows_4", "5..768_rows_by_8",
                                      "769..6336_tile_16x32", "6337.._tile_64x32"}));
}

TEST(RegionKernels, GivesEachWinnerTheSizesAroundItsOwn) {
  const Planner sum(kSoftmaxSum);
  EXPECT_EQ(sum.Ranges({{16, Blocks(64)}}), Texts({"0.._block_64"}));
  EXPECT_EQ(sum.Ranges({{1, {}}, {16, Blocks(64)}, {100, Blocks(64)}, {10000, Blocks(512)}}),
            Texts({"0..4", "5..1000_block_64", "1001.._block_512"}));
  // A choice that comes back is a kernel of another name.
  EXPECT_EQ(sum.Ranges({{1, Blocks(64)}, {4, Blocks(512)}, {16, Blocks(64)}}),
            Texts({"0..2_block_64", "3..8_block_512", "9.._block_64_again"}));
}

TEST(RegionKernels, ServesNoMoreRowsThanAKernelCanMake) {
  const Planner product(kProduct);
  EXPECT_EQ(product.Ranges({{4, Rows(4)}, {1024, KernelChoice()}}), Texts({"0..4_rows_4", "5.."}));
  EXPECT_EQ(product.Ranges({{4, Rows(4)}}),
            Texts({"0..4_rows_4", "5..48_rows_by_8", "49..768_tile_16x32", "769..3072_tile_32x64",
                   "3073..8192_tile_128x64", "8193.."}));
}

TEST(RegionKernels, MakesStepsThatAreAlternatives) {
  const Planner sum(kSoftmaxSum);
  std::vector<IndexSite> sites;
  const auto steps = sum.kernels.Plan(sum.kernels.Tuned({{1, {}}, {100, Blocks(512)}}), sites);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].alternative->to, 10);
  EXPECT_TRUE(steps[0].alternative->is_first);
  EXPECT_EQ(steps[1].alternative->from, 11);
  EXPECT_EQ(steps[1].kernel.name, "k00_block_512");
  EXPECT_EQ(steps[1].kernel.block_size, 512);
  EXPECT_NE(steps[0].kernel.block_size, 512);
}

// Blocks for each 8 rows serve any number of them.
TEST(RegionKernels, TriesRowsInGroupsWhereTheyAreAFewMore) {
  const Planner product(Layer(512, 256));
  // Up to 48 rows the planned one as well.
  for (const auto& [size, groups] : {std::pair(4, 0), {8, 1}, {9, 9}, {64, 8}, {65, 0}}) {
    int found = 0;
    for (const KernelChoice& choice : product.kernels.Candidates(size))
      found += choice.product.in_groups;
    EXPECT_EQ(found, groups) << size;
  }
  KernelChoice choice = Rows(8);
  choice.product.in_groups = true;
  EXPECT_EQ(choice.Words(), "groups of 8 rows, 1 warps per column");
  EXPECT_EQ(choice.Suffix(), "_rows_by_8");
  EXPECT_EQ(choice.MostRows(), INT64_MAX);
  EXPECT_EQ(Rows(8).MostRows(), 8);
}

TEST(RegionKernels, TellsOfTilesByWarpgroups) {
  KernelChoice choice;
  choice.product.kind = MatMulKernel::Kind::kWarpgroups;
  choice.product.tile = {128, 256, 128, 8, 1, 1, 4};
  EXPECT_EQ(choice.Suffix(), "_warpgroup_128x256");
  EXPECT_EQ(choice.Words(), "tile of 128 x 256, 2 warpgroups, 4 stages");
  choice.product.tile.cluster_blocks = 4;
  EXPECT_EQ(choice.Suffix(), "_warpgroup_128x256_cluster_4");
  EXPECT_EQ(choice.Words(), "tile of 128 x 256, 2 warpgroups, 4 stages, clusters of 4 blocks");
}

TEST(RegionKernels, PassesOnTheAlgorithmOfALibrary) {
  const Planner product(kProduct);
  KernelChoice choice;
  choice.product.algorithm = "130002 1 2 3 4 5 6 7 8";
  choice.product.place = 3;
  std::vector<IndexSite> sites;
  const auto steps = product.kernels.Plan(product.kernels.Tuned({{1024, choice}}), sites);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_TRUE(steps[0].is_matmul);
  EXPECT_EQ(steps[0].matmul.algorithm, choice.product.algorithm);
  EXPECT_EQ(steps[0].matmul.name, "k00_algorithm_3");
  EXPECT_EQ(choice.Words(), "library, number 3 of its algorithms");
}

// Every candidate is a kernel: it can be planned and written.
TEST(RegionKernels, ProposesKernelsThatCanBePlanned) {
  for (const std::string& text :
       {std::string(kProduct), Layer(3456, 512), std::string(kSoftmaxSum)}) {
    for (const auto& [target, warpgroups] : {std::pair{TargetKind::kCpu, false},
                                             {TargetKind::kGpu, false},
                                             {TargetKind::kGpu, true}}) {
      const Planner planner(text, target, warpgroups);
      for (const int64_t size : {1, 3, 16, 17, 5000}) {
        const auto candidates = planner.kernels.Candidates(size);
        ASSERT_FALSE(candidates.empty());
        for (const KernelChoice& choice : candidates) {
          EXPECT_GE(choice.MostRows(), size);
          std::vector<IndexSite> sites;
          const auto steps = planner.kernels.Plan({{choice, choice.Suffix()}}, sites);
          ASSERT_EQ(steps.size(), 1u);
          EXPECT_EQ(steps[0].is_matmul, steps[0].kernel.body.empty());
        }
      }
    }
  }
}

}  // namespace
}  // namespace fusec
