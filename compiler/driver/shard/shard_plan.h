#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/support/adt.h"
#include "compiler/support/result.h"

namespace fusec {

// The load that a run puts on an embedding table, at the sizes for which a plan is made.
struct TableDemand {
  std::string table;                   // its name in the model
  std::vector<std::string> constants;  // the graph's constants that hold it
  int64_t rows = 0;
  int64_t row_bytes = 0;          // bytes of a stored row, with its scale and bias if quantized
  double look_ups = 0;            // rows that a run reads
  double id_bytes = 0;            // bytes of ids, sent to every shard that has a part of the table
  double wire_bytes = 0;          // bytes that a shard with the whole table answers
  double wire_bytes_of_part = 0;  // bytes that each part answers if the table is cut by rows
  // Elements of a row, and bytes that all parts together answer if the table is cut by columns; 0
  // if it cannot be cut by columns.
  int64_t columns = 0;
  double wire_bytes_by_columns = 0;
  // stays: why the table must stay in the dense part, "" if it need not. stays_whole: why it cannot
  // be cut by rows, "" if it can.
  std::string stays, stays_whole;
  // The rows that a profile looks up, ascending; if there are none, all rows are equally likely.
  std::vector<int64_t> rows_looked_up{};

  double bytes() const { return static_cast<double>(rows) * static_cast<double>(row_bytes); }
  // The share of all look-ups that read the rows first..end-1.
  double Traffic(int64_t first, int64_t end) const;
};

// The assumed speeds of the machines that hold shards.
struct ClusterCosts {
  double row_bandwidth = 10e9;       // bytes per second, for reading rows of random ids
  double network_bandwidth = 3.1e9;  // bytes per second into or out of a machine: 25 Gbit/s
  double message_us = 50;            // fixed time of a request and its answer, without their bytes
  double dense_flops = 100e9;        // floating-point operations per second of the dense part
};

struct ShardPlanOptions {
  int64_t shards = 2;
  double most_bytes = 0;         // limit on the bytes of tables on a shard; 0: no limit
  double least_bytes = 1 << 20;  // tables of at most this size stay in the dense part
  ClusterCosts costs;
};

// A range of rows of a table, or a range of columns of all its rows. `table` is its number among
// the demands.
struct PlannedPart {
  size_t table = 0;
  int64_t first_row = 0, end_row = 0;
  int64_t first_column = 0, end_column = 0;  // end_column: 0 for all columns
};

// The load of a run on a shard: bytes of its tables, of rows read, of ids received and of answers
// sent, and the time in microseconds.
struct ShardLoad {
  double table_bytes = 0, row_bytes = 0, id_bytes = 0, wire_bytes = 0, us = 0;
};

// A table that stays in the dense part.
struct KeptTable {
  size_t table = 0;
  std::string why;
};

struct ShardPlan {
  std::vector<std::vector<PlannedPart>> shards;
  std::vector<ShardLoad> loads;  // one for each shard
  std::vector<KeptTable> kept;
};

// The load of a run on a replica of the dense part, without its waiting for shards. All ids leave
// and all answers arrive through the one network link of its machine, which takes link_us.
struct DenseLoad {
  double id_bytes = 0, wire_bytes = 0, link_us = 0;
  double us = 0;  // time of its own steps
};
// `own_us` is the time of the dense part's own steps.
DenseLoad DenseLoadOf(const ShardPlan& plan, const ClusterCosts& costs, double own_us);

// Estimated time from a batch's arrival until the dense part has run.
//
//   expected: requests leave one after another, every shard reads its rows as soon as it has its
//   ids,
//             and each answer is sent over the link of the dense part when it is ready.
//   worst:    nothing overlaps, and all answers are sent when the slowest shard has read its rows.
struct BatchTimes {
  double expected_us = 0, worst_us = 0;
};
BatchTimes BatchTimesOf(const ShardPlan& plan, const ClusterCosts& costs, double own_us);

// Distributes tables over shards, the most demanding first, each to the shard where time and memory
// then stay the most even. A table whose bytes exceed an even share by more than a quarter, or
// exceed what a shard may hold, is cut. It is cut by columns if each part then has at least 64
// bytes of a row and the parts answer with no more bytes than parts by rows would; otherwise by
// rows, such that parts have equal traffic and memory.
Result<ShardPlan> PlanShards(ArrayRef<TableDemand> tables, const ShardPlanOptions& options);

}  // namespace fusec
