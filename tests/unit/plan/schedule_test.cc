#include "compiler/plan/matmul/schedule.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "compiler/plan/matmul/policy.h"

namespace fusec {
namespace {

schedule::Warpgroup Warpgroups(int blocks) { return {{128, 256, 4, {.blocks = blocks}}}; }
schedule::Tile Warps() { return {{16, 32, 3, {.warps = 8}}, 512, 1, 1}; }

// One of every kind, and of some two.
std::vector<MatMulSchedule> Some() {
  return {schedule::Library(),
          schedule::Library{"130002 1 2", 3},
          schedule::Plain(),
          schedule::Rows{.most_rows = 4},
          schedule::Rows{.most_rows = 8, .in_groups = true, .split_k = {.warps = 2}},
          Warps(),
          Warpgroups(1),
          Warpgroups(4)};
}

TEST(MatMulSchedule, TellsOfItself) {
  std::vector<std::string> suffixes, words;
  for (const MatMulSchedule& schedule : Some()) {
    suffixes.push_back(SuffixOf(schedule));
    words.push_back(WordsOf(schedule));
  }
  EXPECT_EQ(suffixes, (std::vector<std::string>{
                          "", "_algorithm_3", "_plain", "_rows_4", "_rows_by_8", "_tile_16x32",
                          "_warpgroup_128x256", "_warpgroup_128x256_cluster_4"}));
  EXPECT_EQ(words,
            (std::vector<std::string>{
                "", "library, number 3 of its algorithms", "", "4 rows at once, 1 warps per column",
                "groups of 8 rows, 2 warps per column",
                "tile of 16 x 32, 1 x 1 x 8 warps, 3 stages of 512 bytes",
                "tile of 128 x 256, 2 warpgroups, 4 stages",
                "tile of 128 x 256, 2 warpgroups, 4 stages, clusters of 4 blocks"}));
}

TEST(MatMulSchedule, SaysHowManyRowsItMakes) {
  EXPECT_EQ(MostRowsOf(schedule::Rows{.most_rows = 8}), 8);
  EXPECT_EQ(MostRowsOf(schedule::Rows{.most_rows = 8, .in_groups = true}), INT64_MAX);
  EXPECT_EQ(MostRowsOf(Warps()), INT64_MAX);
}

TEST(MatMulSchedule, IsItsFieldsByName) {
  for (const MatMulSchedule& schedule : Some()) {
    const auto json = ScheduleJson(schedule);
    EXPECT_EQ(ScheduleOf(json), schedule) << json;
    for (const auto& [name, value] : json.items()) EXPECT_FALSE(value.is_array()) << name;
  }
}

TEST(MatMulSchedule, TakesNoFieldsThatThereCannotBe) {
  const auto fails = [](const MatMulSchedule& schedule, const char* field, int value) {
    auto json = ScheduleJson(schedule);
    json[field] = value;
    EXPECT_THROW((void)ScheduleOf(json), nlohmann::json::exception) << json;
  };
  for (const int blocks : {0, 3, 16}) fails(Warpgroups(4), "split_k_blocks", blocks);
  for (const int rows : {0, -64, 2048}) {
    fails(Warpgroups(1), "rows", rows);
    fails(Warps(), "rows", rows);
  }
  fails(Warpgroups(1), "rows", 96);
  auto json = ScheduleJson(Warps());
  json.erase("stages");
  EXPECT_THROW((void)ScheduleOf(json), nlohmann::json::exception);
  json["kind"] = "wave";
  EXPECT_THROW((void)ScheduleOf(json), nlohmann::json::exception);
}

// For any GPU with tensor cores; warpgroup tiles only for GPUs that support them.
TEST(MatMulPolicy, HasTilesThatFit) {
  for (const char* architecture : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120"}) {
    const Gpu& gpu = GpuFor(architecture);
    const Arithmetic kinds[] = {Arithmetic::kSplit, Arithmetic::kTf32, Arithmetic::kHalf};
    for (const Arithmetic arithmetic : kinds) {
      for (const schedule::Tile& tile : TilesByWarps()) {
        EXPECT_EQ(tile.Problem(), "") << tile.Words();
        EXPECT_LE(tile.SharedBytes(arithmetic), GpuFor("sm_80").block_shared_bytes);
        EXPECT_LE(tile.BlockSize(), 1024);
      }
      if (!gpu.has.warpgroup_products) continue;
      for (const schedule::Warpgroup& tile : TilesByWarpgroups(arithmetic)) {
        EXPECT_EQ(tile.Problem(), "") << tile.Words();
        EXPECT_LE(tile.SharedBytes(arithmetic), gpu.block_shared_bytes) << tile.Words();
      }
    }
    EXPECT_LE(TileOfShortSums().SharedBytes(Arithmetic::kTf32), gpu.block_shared_bytes);
    EXPECT_LE(TileOfTinySums().SharedBytes(Arithmetic::kTf32), gpu.block_shared_bytes);
  }
}

}  // namespace
}  // namespace fusec
