#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/support/adt.h"
#include "compiler/support/result.h"

namespace fusec {

// What a run asks of an embedding table, for the sizes that a plan is made for.
struct TableDemand {
  std::string table;                   // the model's name
  std::vector<std::string> constants;  // of the graph
  int64_t rows = 0;
  int64_t row_bytes = 0;  // as a row is stored, with its factors
  double look_ups = 0;    // rows that a run reads
  double id_bytes = 0;    // that are sent to whoever has rows of it
  double wire_bytes =
      0;  // that cross its seam, and the same where it is cut by rows: of every part
  double wire_bytes_of_part = 0;
  // Elements of a row, and what crosses of all of them where they are on several shards; 0 if the
  // table cannot be cut by columns.
  int64_t columns = 0;
  double wire_bytes_by_columns = 0;
  std::string stays,
      stays_whole;  // why it cannot leave the dense part, or not in parts; "" if it can
  std::vector<int64_t>
      rows_looked_up{};  // of a profile, ascending; every row is as likely if there are none

  double bytes() const { return static_cast<double>(rows) * static_cast<double>(row_bytes); }
  // The share of the look-ups that rows first..end-1 have.
  double Traffic(int64_t first, int64_t end) const;
};

// What the machines that hold shards can do.
struct ClusterCosts {
  double row_bandwidth = 10e9;       // bytes a second of rows of random ids
  double network_bandwidth = 3.1e9;  // bytes a second, into or out of a machine: 25 Gbit/s
  double message_us = 50;            // a request and its answer, without their bytes
  double dense_flops = 100e9;        // a second, of the dense part
};

struct ShardPlanOptions {
  int64_t shards = 2;
  double most_bytes = 0;         // of tables on a shard; 0: no limit
  double least_bytes = 1 << 20;  // smaller tables stay in the dense part
  ClusterCosts costs;
};

// Rows of a table, by its number among the demands, or some columns of all its rows.
struct PlannedPart {
  size_t table = 0;
  int64_t first_row = 0, end_row = 0;
  int64_t first_column = 0, end_column = 0;  // end_column: 0 for all columns
};

// What a run costs a shard.
struct ShardLoad {
  double table_bytes = 0, row_bytes = 0, id_bytes = 0, wire_bytes = 0, us = 0;
};

struct KeptTable {
  size_t table = 0;
  std::string why;
};

struct ShardPlan {
  std::vector<std::vector<PlannedPart>> shards;
  std::vector<ShardLoad> loads;  // by shard
  std::vector<KeptTable> kept;   // in the dense part
};

// What a run costs a replica of the dense part, beside its waiting for shards: all ids leave and
// all answers arrive through the one link of its machine.
struct DenseLoad {
  double id_bytes = 0, wire_bytes = 0, link_us = 0;
  double us = 0;  // of its own steps
};
DenseLoad DenseLoadOf(const ShardPlan& plan, const ClusterCosts& costs, double own_us);

// From a batch's arrival until the dense part has run.
//
//   expected: requests leave one behind the other, every shard reads its rows once it has its ids,
//             and answers come through the link of the dense part as they are ready.
//   worst:    all answers are ready when the slowest is, and nothing overlaps.
struct BatchTimes {
  double expected_us = 0, worst_us = 0;
};
BatchTimes BatchTimesOf(const ShardPlan& plan, const ClusterCosts& costs, double own_us);

// Puts tables on shards: the most demanding first, each where time and memory are then the most
// even. A table whose bytes are more than an even share, or than a shard may have, is cut: by
// columns where each part then has at least 64 bytes of a row, and no more crosses than of parts of
// its rows; by rows otherwise, with even traffic and memory for its parts.
Result<ShardPlan> PlanShards(ArrayRef<TableDemand> tables, const ShardPlanOptions& options);

}  // namespace fusec
