#include "compiler/plan/region_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/plan/matmul/choose_schedules.h"
#include "compiler/plan/matmul/policy.h"

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

// x, repeated to 32 matrices of 3024 terms, by weights with `columns` columns: the kernel computes the repetition.
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

// The GPUs of the table for which plans are based on measurements, and another one that runs fewer blocks.
constexpr const char* kGpus[] = {"sm_75", "sm_80",  "sm_86",   "sm_89",
                                 "sm_90", "sm_90a", "sm_100a", "sm_120"};
constexpr std::pair<const char*, const char*> kNumbers[] = {
    {"f32", "highest"}, {"f32", "high"}, {"f16", "high"}, {"bf16", "high"}};

struct Planner {
  explicit Planner(const std::string& text, const std::string& target = "sm_90",
                   const char* precision = "highest", bool batch_invariant = false)
      : graph(*Parse(text)),
        options{target == "cpu" ? TargetKind::kCpu : TargetKind::kGpu, precision,
                target == "cpu" ? nullptr : &GpuFor(target), nullptr, batch_invariant},
        kernels(*graph->nodes.back(), "k00", {}, options, *graph) {}
  // "from..to suffix" of every variant.
  std::vector<std::string> Ranges(ArrayRef<Winner> winners) const {
    std::vector<std::string> ranges;
    for (const Variant& variant : kernels.Tuned(winners)) {
      ranges.push_back(std::to_string(variant.from) + ".." +
                       (variant.to == INT64_MAX ? "" : std::to_string(variant.to)) +
                       variant.suffix);
    }
    return ranges;
  }
  // The sizes for which the variants are planned.
  MatMulPlan product() const { return *PlanProduct(*graph->nodes.back()); }
  const MatMulPolicy& policy() const { return PolicyFor(product(), options); }
  int64_t columns() const { return *product().n.AsConstant(); }
  int64_t matrices() const { return *product().batch.AsConstant(); }

  std::unique_ptr<Graph> graph;
  PlanOptions options;
  RegionKernels kernels;
};

// Calls test(planner) for products of many sizes and types on all GPUs, with and without a library.
template <class Test>
void ForEachProduct(const Test& test, bool batch_invariant = false) {
  const auto run = [&](const std::string& text, const char* precision) {
    for (const char* gpu : kGpus) {
      SCOPED_TRACE(text + gpu + " " + precision);
      test(Planner(text, gpu, precision, batch_invariant));
    }
  };
  for (const auto& [dtype, precision] : kNumbers) {
    for (const int k : {1, 13, 16, 17, 64, 256, 415, 512, 1024, 3456, 5000}) {
      for (const int n : {1, 16, 33, 100, 512, 1024, 2304, 3456, 5000})
        run(Layer(k, n, dtype), precision);
    }
  }
  for (const char* precision : {"highest", "high"}) {
    run(kManyMatrices, precision);
    for (const int n : {1, 32, 100, 512}) run(MadeOperand(n), precision);
  }
}

bool IsLibrary(const KernelChoice& choice) {
  return std::holds_alternative<schedule::Library>(choice.product);
}

KernelChoice Rows(int most) {
  KernelChoice choice;
  choice.product = schedule::Rows{.most_rows = most};
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
  EXPECT_EQ(product.Ranges({{1, {}}, {4096, {}}}), product.Ranges({}));
  EXPECT_GT(product.Ranges({}).size(), 3u);
}

// With more rows, tiles get larger, and fewer blocks share a sum.
TEST(RegionKernels, PlansALayerOfAnMlpFromFewRowsToMany) {
  const auto planned = Planner(Layer(3456, 512), "sm_90a").kernels.Planned();
  EXPECT_TRUE(std::holds_alternative<schedule::Rows>(planned.front().choice.product));
  const auto* last = std::get_if<schedule::Warpgroup>(&planned.back().choice.product);
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(last->split_k.blocks, 1);
  bool has_tiles = false;
  int64_t elements = 0;
  for (const Variant& variant : planned) {
    const auto* tile = std::get_if<schedule::Warpgroup>(&variant.choice.product);
    EXPECT_TRUE(tile != nullptr || !has_tiles) << variant.suffix;
    if (tile == nullptr) continue;
    EXPECT_GE(tile->rows * tile->columns, elements) << variant.suffix;
    elements = tile->rows * tile->columns;
    has_tiles = true;
  }
  // In TF32, the library is faster than kernels without clusters.
  EXPECT_TRUE(
      IsLibrary(Planner(Layer(3456, 512), "sm_90a", "high").kernels.Planned().back().choice));
}

// The planned kernels depend on the GPU.
TEST(RegionKernelsDeathTest, NeedAGpuOfTheTable) {
  const auto graph = *Parse(kProduct);
  const PlanOptions options{TargetKind::kGpu};
  EXPECT_DEATH(RegionKernels(*graph->nodes.back(), "k00", {}, options, *graph),
               "need one of the table");
}

TEST(RegionKernels, ServesEveryNumberOfRowsByOneKernelThatCan) {
  ForEachProduct([](const Planner& planner) {
    int64_t next = 0;
    for (const Variant& variant : planner.kernels.Planned()) {
      EXPECT_EQ(variant.from, next);
      EXPECT_GE(variant.to, variant.from);
      EXPECT_LE(variant.to, variant.choice.MostRows());
      EXPECT_TRUE(Fits(variant.choice.product, planner.product(), planner.options))
          << variant.suffix;
      next = variant.to == INT64_MAX ? -1 : variant.to + 1;
    }
    EXPECT_EQ(next, -1);
  });
}

// Every tile, apart from its split-K, is one that the policy allows for products with this number of columns; and the library computes no
// product that the policy gives to generated kernels.
TEST(RegionKernels, PlansWhatThePolicySays) {
  ForEachProduct([](const Planner& planner) {
    const MatMulPolicy& policy = planner.policy();
    std::vector<MatMulSchedule> tiles;
    for (const auto& planned : policy.tiles) {
      if (planned.Serves(planner.columns())) tiles.push_back(planned.tile);
    }
    for (const auto& planned : policy.large_tiles) {
      if (planned.Serves(planner.columns())) tiles.push_back(planned.tile);
    }
    tiles.push_back(TileOfShortSums());
    tiles.push_back(TileOfTinySums());
    bool has_large_tiles = false;
    for (const Variant& variant : planner.kernels.Planned()) {
      MatMulSchedule product = variant.choice.product;
      if (auto* tile = std::get_if<schedule::Warpgroup>(&product)) {
        tile->split_k.blocks = 1;
        has_large_tiles = true;
      }
      if (std::holds_alternative<schedule::Tile>(product) ||
          std::holds_alternative<schedule::Warpgroup>(product)) {
        EXPECT_NE(std::find(tiles.begin(), tiles.end(), product), tiles.end()) << variant.suffix;
      }
      if (IsLibrary(variant.choice)) {
        EXPECT_FALSE(policy.is_ahead_of_library && has_large_tiles);
        EXPECT_FALSE(policy.makes_operand);
      }
    }
    EXPECT_TRUE(policy.by_warpgroups || !has_large_tiles);
  });
}

// All blocks of clusters run at the same time, up to two per multiprocessor; with more tiles, fewer blocks share a tile.
TEST(RegionKernels, SharesSumsOutWhileBlocksFindRoom) {
  ForEachProduct([](const Planner& planner) {
    int last_blocks = kMostClusterBlocks;
    const schedule::ResultTile* last = nullptr;
    for (const Variant& variant : planner.kernels.Planned()) {
      const auto* tile = std::get_if<schedule::Warpgroup>(&variant.choice.product);
      if (tile == nullptr) continue;
      const int blocks = tile->split_k.blocks;
      const bool is_same = last && last->rows == tile->rows && last->columns == tile->columns;
      EXPECT_TRUE(!is_same || blocks <= last_blocks) << variant.suffix;
      if (blocks > 1) {
        const int64_t tiles = CeilDiv(variant.to, tile->rows) *
                              CeilDiv(planner.columns(), tile->columns) * planner.matrices();
        EXPECT_LE(tiles * blocks, 2 * planner.options.gpu->multiprocessors()) << variant.suffix;
      }
      last_blocks = blocks;
      last = tile;
    }
  });
}

// The number of rows from which the largest tile is used.
int64_t FromOfLargest(const Planner& planner) { return planner.kernels.Planned().back().from; }

TEST(RegionKernels, LeavesMoreRowsToSmallTilesOnAGpuOfMoreMultiprocessors) {
  Gpu small = GpuFor("sm_90a"), large = small;
  Card few = *small.card, many = few;
  few.multiprocessors = 64;
  many.multiprocessors = 256;
  small.card = &few;
  large.card = &many;
  for (const int n : {64, 512, 3456}) {
    Planner on_small(Layer(512, n), "sm_90a"), on_large(Layer(512, n), "sm_90a");
    on_small.options.gpu = &small;
    on_large.options.gpu = &large;
    EXPECT_LT(FromOfLargest(on_small), FromOfLargest(on_large)) << n;
  }
}

TEST(RegionKernels, LeavesAFewRowsMoreToGroupsOfThemWhereTilesHaveLittleWork) {
  ForEachProduct([](const Planner& planner) {
    const MatMulPolicy& policy = planner.policy();
    const int64_t most =
        std::max(policy.most_grouped_elements, policy.most_grouped_elements_of_long);
    for (const Variant& variant : planner.kernels.Planned()) {
      const auto* rows = std::get_if<schedule::Rows>(&variant.choice.product);
      if (rows == nullptr || !rows->in_groups) continue;
      EXPECT_EQ(rows->most_rows, policy.most_rows_at_once);
      EXPECT_LE(variant.to, most / (planner.columns() * planner.matrices()));
    }
  });
}

TEST(RegionKernels, LeavesTinySumsToThreadsThenToATileThenToTheLibrary) {
  const auto tiny = Planner(Layer(13, 512)).kernels.Planned();
  ASSERT_EQ(tiny.size(), 4u);
  EXPECT_TRUE(std::holds_alternative<schedule::Rows>(tiny[0].choice.product));
  EXPECT_TRUE(std::holds_alternative<schedule::Plain>(tiny[1].choice.product));
  EXPECT_EQ(tiny[2].choice.product, MatMulSchedule(TileOfTinySums()));
  EXPECT_TRUE(IsLibrary(tiny[3].choice));
  EXPECT_LE(tiny[1].to * 512, kMostPlainElements);
  EXPECT_LE(tiny[2].to * 512, kMostTinyElements);
  EXPECT_EQ(Planner(Layer(13, 512, "f16")).Ranges({}), Planner(Layer(13, 512)).Ranges({}));
}

TEST(RegionKernels, MakesOperandsInKernelsOfOurs) {
  for (const char* gpu : {"sm_80", "sm_90a"}) {
    const Planner planner(MadeOperand(512), gpu);
    for (const Variant& variant : planner.kernels.Planned())
      EXPECT_FALSE(IsLibrary(variant.choice)) << variant.suffix;
    for (const KernelChoice& choice : planner.kernels.Candidates(128))
      EXPECT_FALSE(IsLibrary(choice)) << choice.Words();
  }
}

// Tuning measures every tile that is planned for some size, wherever it fits.
TEST(RegionKernels, TriesAllThatIsPlanned) {
  ForEachProduct([](const Planner& planner) {
    for (const Variant& variant : planner.kernels.Planned()) {
      const MatMulSchedule& planned = variant.choice.product;
      const bool is_tile = std::holds_alternative<schedule::Tile>(planned);
      const bool is_large = std::holds_alternative<schedule::Warpgroup>(planned) &&
                            variant.from >= planner.policy().fewest_measured_rows;
      if (!is_tile && !is_large) continue;
      const auto candidates = MatMulCandidates(planner.product(), variant.from, planner.options);
      EXPECT_EQ(std::count(candidates.begin(), candidates.end(), planned), 1) << variant.suffix;
    }
  });
}

TEST(RegionKernels, GivesEachWinnerTheSizesAroundItsOwn) {
  const Planner sum(kSoftmaxSum);
  EXPECT_EQ(sum.Ranges({{16, Blocks(64)}}), Texts({"0.._block_64"}));
  EXPECT_EQ(sum.Ranges({{1, {}}, {16, Blocks(64)}, {100, Blocks(64)}, {10000, Blocks(512)}}),
            Texts({"0..4", "5..1000_block_64", "1001.._block_512"}));
  // A choice that is used for several ranges of sizes becomes kernels with different names.
  EXPECT_EQ(sum.Ranges({{1, Blocks(64)}, {4, Blocks(512)}, {16, Blocks(64)}}),
            Texts({"0..2_block_64", "3..8_block_512", "9.._block_64_again"}));
}

TEST(RegionKernels, ServesNoMoreRowsThanAKernelCanMake) {
  const Planner product(kProduct);
  EXPECT_EQ(product.Ranges({{4, Rows(4)}, {1024, KernelChoice()}}), Texts({"0..4_rows_4", "5.."}));
  // From there on, the kernels are as planned.
  Texts rest = product.Ranges({});
  while (!rest.front().starts_with("5..")) rest.erase(rest.begin());
  rest.insert(rest.begin(), "0..4_rows_4");
  EXPECT_EQ(product.Ranges({{4, Rows(4)}}), rest);
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

// Kernels with a block for every 8 rows serve any number of rows.
TEST(RegionKernels, TriesRowsInGroupsWhereTheyAreAFewMore) {
  const Planner product(Layer(512, 256));
  for (const auto& [size, has_groups] : {std::pair(4, false), {9, true}, {64, true}, {65, false}}) {
    const auto candidates = product.kernels.Candidates(size);
    const bool found = std::any_of(candidates.begin(), candidates.end(), [](const auto& choice) {
      const auto* rows = std::get_if<schedule::Rows>(&choice.product);
      return rows != nullptr && rows->in_groups;
    });
    EXPECT_EQ(found, has_groups) << size;
  }
}

TEST(RegionKernels, PassesOnTheAlgorithmOfALibrary) {
  const Planner product(kProduct);
  KernelChoice choice;
  const std::string algorithm = "130002 1 2 3 4 5 6 7 8";
  choice.product = schedule::Library{algorithm, 3};
  std::vector<IndexSite> sites;
  const auto steps = product.kernels.Plan(product.kernels.Tuned({{1024, choice}}), sites);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_TRUE(steps[0].is_matmul);
  EXPECT_EQ(steps[0].matmul.algorithm, algorithm);
  EXPECT_EQ(steps[0].matmul.name, "k00_algorithm_3");
  EXPECT_EQ(choice.Words(), "library, number 3 of its algorithms");
}

// Every candidate can be planned and emitted as a kernel.
TEST(RegionKernels, ProposesKernelsThatCanBePlanned) {
  for (const std::string& text :
       {std::string(kProduct), Layer(3456, 512), std::string(kSoftmaxSum)}) {
    for (const char* target : {"cpu", "sm_80", "sm_90a"}) {
      const Planner planner(text, target);
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

// ---- Batch-invariant kernels ----

TEST(BatchInvariantKernels, ServeAllRowsOfAProduct) {
  ForEachProduct(
      [](const Planner& planner) {
        const auto planned = planner.kernels.Planned();
        ASSERT_EQ(planned.size(), 1u);
        EXPECT_EQ(planned[0].from, 0);
        EXPECT_EQ(planned[0].to, INT64_MAX);
        EXPECT_EQ(planned[0].choice.MostRows(), INT64_MAX);
        EXPECT_FALSE(IsLibrary(planned[0].choice));
        EXPECT_TRUE(Fits(planned[0].choice.product, planner.product(), planner.options));
        EXPECT_EQ(planner.kernels.library_product(), nullptr);
        for (const int64_t size : {1, 8, 16, 4096}) {
          for (const KernelChoice& choice : planner.kernels.Candidates(size)) {
            EXPECT_FALSE(IsLibrary(choice)) << choice.Words();
            EXPECT_EQ(choice.MostRows(), INT64_MAX) << choice.Words();
          }
        }
      },
      /*batch_invariant=*/true);
}

TEST(BatchInvariantKernels, AreThoseOfTheUsualBatch) {
  const auto planned = [](const std::string& text, const char* target, const char* precision) {
    return Planner(text, target, precision, /*batch_invariant=*/true).Ranges({});
  };
  EXPECT_EQ(planned(Layer(3456, 512), "sm_90a", "highest"),
            Texts({"0.._warpgroup_64x64_cluster_4"}));
  EXPECT_EQ(planned(kSoftmaxSum, "sm_90a", "highest"), Texts({"0.."}));
  // The runtime's own product replaces oneDNN.
  EXPECT_TRUE(IsLibrary(
      Planner(kProduct, "cpu", "highest", /*batch_invariant=*/true).kernels.Planned()[0].choice));
  // If the usual batch is out of the batch's range, the plan uses a batch within the range.
  std::string few = Layer(3456, 512);
  few.replace(few.find("1..65536"), 8, "1..4");
  EXPECT_EQ(planned(few, "sm_90a", "highest"), Texts({"0.._rows_4"}));
}

TEST(BatchInvariantKernels, AreOnesThatWonAtAllSizes) {
  const Planner sum(kSoftmaxSum, "sm_90", "highest", /*batch_invariant=*/true);
  EXPECT_EQ(sum.Ranges({{1, Blocks(64)}, {4096, Blocks(64)}}), Texts({"0.._block_64"}));
  EXPECT_EQ(sum.Ranges({{1, Blocks(64)}, {4096, Blocks(512)}}), sum.Ranges({}));
  EXPECT_EQ(sum.Ranges({{1, Blocks(64)}, {4096, {}}}), sum.Ranges({}));
  const Planner product(kProduct, "sm_90", "highest", /*batch_invariant=*/true);
  EXPECT_EQ(product.Ranges({{1, Rows(4)}, {4, Rows(4)}}), product.Ranges({}));
}

}  // namespace
}  // namespace fusec
