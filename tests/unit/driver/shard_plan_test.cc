#include "compiler/driver/shard/shard_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace fusec {
namespace {

TableDemand Table(const std::string& name, int64_t rows, double look_ups = 1000) {
  TableDemand table;
  table.table = name;
  table.rows = rows;
  table.row_bytes = 256;
  table.look_ups = look_ups;
  table.id_bytes = 8 * look_ups;
  table.wire_bytes = table.wire_bytes_of_part = 256 * look_ups;
  return table;
}

ShardPlanOptions Options(int64_t shards) {
  ShardPlanOptions options;
  options.shards = shards;
  options.least_bytes = 0;
  return options;
}

// The number of rows of each table on shards; also checks that no row is there twice.
std::vector<int64_t> RowsOnShards(const ShardPlan& plan, size_t tables) {
  std::vector<std::vector<std::pair<int64_t, int64_t>>> ranges(tables);
  for (const auto& parts : plan.shards) {
    for (const PlannedPart& part : parts) ranges[part.table].emplace_back(part.first_row, part.end_row);
  }
  std::vector<int64_t> rows;
  for (auto& of_table : ranges) {
    std::sort(of_table.begin(), of_table.end());
    int64_t end = 0;
    for (const auto& [first, last] : of_table) {
      EXPECT_EQ(first, end);
      end = last;
    }
    rows.push_back(end);
  }
  return rows;
}

TEST(ShardPlan, EveryRowIsOnOneShardAndShardsAreEven) {
  std::vector<TableDemand> tables;
  for (int i = 0; i < 26; ++i) tables.push_back(Table("t" + std::to_string(i), 1000 * (1 + i * i), 2048));
  for (const int64_t shards : {1, 2, 3, 8, 40}) {
    const auto plan = PlanShards(tables, Options(shards));
    ASSERT_TRUE(plan) << plan.error().message;
    const std::vector<int64_t> rows = RowsOnShards(*plan, tables.size());
    for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i], tables[i].rows) << i;
    for (const auto& parts : plan->shards) {  // a table once
      for (size_t i = 1; i < parts.size(); ++i) EXPECT_NE(parts[i].table, parts[i - 1].table);
    }
    double most = 0, sum = 0;
    for (const ShardLoad& load : plan->loads) most = std::max(most, load.table_bytes), sum += load.table_bytes;
    EXPECT_LT(most, 1.6 * sum / static_cast<double>(shards)) << shards;
    const BatchTimes times = BatchTimesOf(*plan, ClusterCosts(), 10);
    EXPECT_GE(times.worst_us, times.expected_us * (1 - 1e-12));
    EXPECT_GE(times.expected_us, DenseLoadOf(*plan, ClusterCosts(), 10).link_us / 2);
  }
}

// Two shards with 1000 and 3000 bytes of ids, and 2000 and 8000 bytes of answers, over a link that transfers 1 byte per microsecond.
TEST(ShardPlan, TheLinkOfTheDensePartTakesAllAnswers) {
  ClusterCosts costs;
  costs.network_bandwidth = 1e6;
  costs.row_bandwidth = 1e6;
  costs.message_us = 100;
  ShardPlan plan;
  plan.loads = {{0, 500, 1000, 2000, 0}, {0, 700, 3000, 8000, 0}};
  const DenseLoad dense = DenseLoadOf(plan, costs, 40);
  EXPECT_EQ(dense.id_bytes, 4000);
  EXPECT_EQ(dense.wire_bytes, 10000);
  EXPECT_NEAR(dense.link_us, 14000, 1e-6);
  const BatchTimes times = BatchTimesOf(plan, costs, 40);
  // The first answer is ready at 1600 and has arrived at 3600; the second is ready at 4800.
  EXPECT_NEAR(times.expected_us, 4000 + 100 + 700 + 8000 + 40, 1e-6);
  EXPECT_NEAR(times.worst_us, 14000 + 100 + 700 + 40, 1e-6);
  plan.loads.pop_back();
  const BatchTimes of_one = BatchTimesOf(plan, costs, 0);
  EXPECT_NEAR(of_one.expected_us, of_one.worst_us, 1e-6);
}

TEST(ShardPlan, SmallTablesAndThoseThatMustStay) {
  std::vector<TableDemand> tables = {Table("large", 100000), Table("small", 10), Table("stays", 100000)};
  tables[2].stays = "it is an output";
  ShardPlanOptions options = Options(1);
  options.least_bytes = 1 << 20;
  const auto plan = PlanShards(tables, options);
  ASSERT_TRUE(plan);
  EXPECT_EQ(RowsOnShards(*plan, 3), (std::vector<int64_t>{100000, 0, 0}));
  ASSERT_EQ(plan->kept.size(), 2u);
  EXPECT_EQ(plan->kept[1].why, "it is an output");
}

TEST(ShardPlan, ATableLargerThanAShardIsCut) {
  ShardPlanOptions options = Options(4);
  options.most_bytes = 256 * 30000;
  const std::vector<TableDemand> tables = {Table("huge", 100000)};
  const auto plan = PlanShards(tables, options);
  ASSERT_TRUE(plan) << plan.error().message;
  for (const ShardLoad& load : plan->loads) EXPECT_LE(load.table_bytes, options.most_bytes);
  EXPECT_EQ(RowsOnShards(*plan, 1), std::vector<int64_t>{100000});

  options.most_bytes = 256 * 20000;
  const auto full = PlanShards(tables, options);
  ASSERT_FALSE(full);
  EXPECT_NE(full.error().message.find("--shard-memory"), std::string::npos) << full.error().message;

  std::vector<TableDemand> whole = tables;
  whole[0].stays_whole = "a maximum reads it";
  const auto uncut = PlanShards(whole, options);
  ASSERT_FALSE(uncut);
  EXPECT_NE(uncut.error().message.find("a maximum reads it"), std::string::npos) << uncut.error().message;
}

// A tenth of the rows has nearly all look-ups: they must not all be on one shard.
TEST(ShardPlan, AProfileSpreadsTheTraffic) {
  std::vector<TableDemand> tables = {Table("skewed", 100000, 100000)};
  for (int64_t i = 0; i < 100000; ++i) tables[0].rows_looked_up.push_back(i < 90000 ? i / 9 : i);
  const auto plan = PlanShards(tables, Options(4));
  ASSERT_TRUE(plan);
  for (const auto& parts : plan->shards) {
    for (const PlannedPart& part : parts) EXPECT_LT(tables[0].Traffic(part.first_row, part.end_row), 0.5);
  }
  EXPECT_EQ(RowsOnShards(*plan, 1), std::vector<int64_t>{100000});
}

TEST(ShardPlan, PartsOfATableAreOnShardsOfTheirOwn) {
  const std::vector<TableDemand> tables = {Table("large", 4000), Table("other", 3000, 100000)};
  const auto plan = PlanShards(tables, Options(3));
  ASSERT_TRUE(plan) << plan.error().message;
  for (const auto& parts : plan->shards) {
    for (size_t i = 1; i < parts.size(); ++i) EXPECT_NE(parts[i].table, parts[i - 1].table);
  }
  EXPECT_EQ(RowsOnShards(*plan, 2), (std::vector<int64_t>{4000, 3000}));
}

TEST(ShardPlan, TooFewTablesForTheShards) {
  std::vector<TableDemand> tables = {Table("only", 3)};
  tables[0].stays_whole = "a maximum reads it";
  const auto plan = PlanShards(tables, Options(2));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().message, "--shards 2: only 1 table can be put on shards");
}

TEST(ShardPlan, WideTablesAreCutByColumnsOf64Bytes) {
  TableDemand table = Table("wide", 1000);
  table.columns = 64;  // of 4 bytes
  table.wire_bytes_by_columns = table.wire_bytes;
  for (const int64_t shards : {2, 3, 4, 5}) {
    const auto plan = PlanShards({table}, Options(shards));
    ASSERT_TRUE(plan) << plan.error().message;
    const bool is_wide_enough = shards <= 4;
    double wire_bytes = 0, table_bytes = 0;
    int64_t columns = 0;
    for (int64_t i = 0; i < shards; ++i) {
      ASSERT_EQ(plan->shards[i].size(), 1U);
      columns += plan->shards[i].front().end_column - plan->shards[i].front().first_column;
      wire_bytes += plan->loads[i].wire_bytes;
      table_bytes += plan->loads[i].table_bytes;
    }
    EXPECT_EQ(columns, is_wide_enough ? 64 : 0);
    EXPECT_DOUBLE_EQ(table_bytes, table.bytes());
    EXPECT_DOUBLE_EQ(wire_bytes, table.wire_bytes * static_cast<double>(is_wide_enough ? 1 : shards));
  }
}

TEST(ShardPlan, TablesWhoseColumnsAreSummedBesideThemAreCutByRows) {
  TableDemand table = Table("scores", 1000);
  table.columns = 64;
  table.wire_bytes_by_columns = table.wire_bytes;
  table.wire_bytes = table.wire_bytes_of_part = table.wire_bytes / 64;
  const auto plan = PlanShards({table}, Options(2));
  ASSERT_TRUE(plan) << plan.error().message;
  for (const auto& parts : plan->shards) EXPECT_EQ(parts.front().end_column, 0);
}

TEST(ShardPlan, ATableThatNoShardHasRoomForIsCutByColumnsOfAnyWidth) {
  TableDemand table = Table("whole_rows", 1000);
  table.row_bytes = 40;
  table.columns = 10;
  table.stays_whole = "a maximum";
  ShardPlanOptions options = Options(4);
  const auto kept_whole = PlanShards({table, Table("b", 10), Table("c", 10), Table("d", 10)}, options);
  ASSERT_TRUE(kept_whole) << kept_whole.error().message;
  for (const auto& parts : kept_whole->shards) {
    for (const PlannedPart& part : parts) EXPECT_EQ(part.end_column, 0);
  }
  options.most_bytes = 14000;  // 3.5 columns: three parts would have 3, 3 and 4
  const auto plan = PlanShards({table}, options);
  ASSERT_TRUE(plan) << plan.error().message;
  for (const ShardLoad& load : plan->loads) EXPECT_LE(load.table_bytes, options.most_bytes);
}

}  // namespace
}  // namespace fusec
