#include "compiler/driver/shard/shard_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/support/terminal.h"

namespace fusec {

namespace {

// A table is cut only if it has more than this multiple of an even share of the bytes, because
// every part of a cut table answers for all ids.
constexpr double kMostOfEvenShare = 1.25;

// Narrower parts would save nothing, because memory is read by cache lines of 64 bytes.
constexpr int64_t kLeastBytesOfRow = 64;

ShardLoad LoadOf(const TableDemand& table, const PlannedPart& part) {
  if (part.end_column != 0) {
    const double share = static_cast<double>(part.end_column - part.first_column) /
                         static_cast<double>(table.columns);
    return {table.bytes() * share, table.look_ups * static_cast<double>(table.row_bytes) * share,
            table.id_bytes, table.wire_bytes_by_columns * share, 0};
  }
  const bool is_whole = part.first_row == 0 && part.end_row == table.rows;
  const double rows = static_cast<double>(part.end_row - part.first_row);
  const double row_bytes = static_cast<double>(table.row_bytes);
  return {rows * row_bytes,
          table.look_ups * table.Traffic(part.first_row, part.end_row) * row_bytes, table.id_bytes,
          is_whole ? table.wire_bytes : table.wire_bytes_of_part, 0};
}

double TransferUs(const ShardLoad& load, const ClusterCosts& costs) {
  return 1e6 * (load.row_bytes / costs.row_bandwidth +
                (load.id_bytes + load.wire_bytes) / costs.network_bandwidth);
}

void Add(const ShardLoad& load, const ClusterCosts& costs, ShardLoad& sum) {
  sum.table_bytes += load.table_bytes;
  sum.row_bytes += load.row_bytes;
  sum.id_bytes += load.id_bytes;
  sum.wire_bytes += load.wire_bytes;
  sum.us = costs.message_us + TransferUs(sum, costs);
}

class Planner {
 public:
  Planner(ArrayRef<TableDemand> tables, const ShardPlanOptions& options)
      : tables_(tables), options_(options) {
    plan_.shards.resize(options.shards);
    plan_.loads.resize(options.shards);
  }

  Result<ShardPlan> Run() {
    for (size_t i = 0; i < tables_.size(); ++i) {
      if (std::string why = WhyKept(tables_[i]); !why.empty())
        plan_.kept.push_back({i, std::move(why)});
      else
        moved_.push_back(i);
    }
    for (const size_t table : moved_) all_bytes_ += tables_[table].bytes();
    for (const size_t table : moved_) FUSEC_TRY(Cut(table));
    if (pieces_.size() < plan_.shards.size()) return TooFew();
    for (const PlannedPart& piece : pieces_)
      all_us_ += TransferUs(LoadOf(tables_[piece.table], piece), options_.costs);
    std::stable_sort(
        pieces_.begin(), pieces_.end(), [&](const PlannedPart& a, const PlannedPart& b) {
          return Share(LoadOf(tables_[a.table], a)) > Share(LoadOf(tables_[b.table], b));
        });
    for (const PlannedPart& piece : pieces_) FUSEC_TRY(Place(piece));
    for (auto& parts : plan_.shards) {
      std::sort(parts.begin(), parts.end(), [](const PlannedPart& a, const PlannedPart& b) {
        return std::pair(a.table, a.first_row) < std::pair(b.table, b.first_row);
      });
    }
    return std::move(plan_);
  }

 private:
  std::string WhyKept(const TableDemand& table) const {
    if (!table.stays.empty()) return table.stays;
    if (table.bytes() > options_.least_bytes) return "";
    return fmt::format("its {:.0f} bytes are few enough to be in every replica", table.bytes());
  }

  tl::unexpected<Error> TooFew() const {
    std::string kept;
    for (size_t i = 0; i < std::min<size_t>(plan_.kept.size(), 3); ++i)
      kept += fmt::format("; \"{}\" stays in the dense part: {}",
                          tables_[plan_.kept[i].table].table, plan_.kept[i].why);
    return Fail(ErrorKind::kUsage,
                fmt::format("--shards {}: only {} can be put on shards{}", options_.shards,
                            Plural(static_cast<int64_t>(pieces_.size()), "table"), kept));
  }

  Result<void> Cut(size_t number) {
    const TableDemand& table = tables_[number];
    const double even = all_bytes_ / static_cast<double>(options_.shards);
    double most = even * kMostOfEvenShare;
    if (options_.most_bytes > 0) most = std::min(most, options_.most_bytes);
    int64_t parts = table.bytes() <= most
                        ? 1
                        : static_cast<int64_t>(std::ceil(table.bytes() / std::min(most, even)));
    const bool must_be_cut = options_.most_bytes > 0 && table.bytes() > options_.most_bytes;
    parts = std::min(parts, options_.shards);
    if (const int64_t by_columns = PartsByColumns(table, parts, must_be_cut); by_columns > 1) {
      for (int64_t part = 0; part < by_columns; ++part)
        pieces_.push_back({number, 0, table.rows, table.columns * part / by_columns,
                           table.columns * (part + 1) / by_columns});
      return {};
    }
    parts = std::min(parts, table.rows);
    if (!table.stays_whole.empty()) {
      if (must_be_cut)
        return Fail(ErrorKind::kUsage, fmt::format("table \"{}\" has {:.0f} bytes, more than "
                                                   "--shard-memory, and cannot be cut by rows: {}",
                                                   table.table, table.bytes(), table.stays_whole));
      parts = 1;
    }
    int64_t first = 0;
    for (int64_t part = 1; part <= parts; ++part) {
      const int64_t end =
          part == parts
              ? table.rows
              : EndOf(table, static_cast<double>(part) / static_cast<double>(parts), first);
      pieces_.push_back({number, first, end});
      first = end;
    }
    return {};
  }

  // The number of parts by columns, at least `parts`, or 0 if the table is not to be cut by
  // columns. If no shard has room for the table and it cannot be cut by rows, parts may have any
  // width.
  int64_t PartsByColumns(const TableDemand& table, int64_t parts, bool must_be_cut) const {
    if (table.columns == 0) return 0;
    const int64_t element = std::max<int64_t>(1, table.row_bytes / table.columns);
    const bool of_any_width = must_be_cut && !table.stays_whole.empty();
    const int64_t least = of_any_width ? 1 : (kLeastBytesOfRow + element - 1) / element;
    const int64_t most = std::min(options_.shards, table.columns / least);
    const auto is_too_large = [&] {  // whether the widest part does not fit on a shard
      const int64_t width = (table.columns + parts - 1) / parts;
      return must_be_cut && static_cast<double>(width * element * table.rows) > options_.most_bytes;
    };
    while (parts <= most && is_too_large()) ++parts;
    // Parts by rows may answer with fewer bytes if the shard sums over columns.
    const bool answers_with_less =
        !table.stays_whole.empty() ||
        table.wire_bytes_by_columns <= static_cast<double>(parts) * table.wire_bytes_of_part;
    return parts <= most && answers_with_less ? parts : 0;
  }

  // The row before which the table has the given share of the mean of traffic and memory.
  static int64_t EndOf(const TableDemand& table, double share, int64_t first) {
    int64_t low = first + 1, high = table.rows - 1;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      const double rows = static_cast<double>(middle) / static_cast<double>(table.rows);
      if ((rows + table.Traffic(0, middle)) / 2 < share)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }

  // The larger of the load's shares of all time and of all memory.
  double Share(const ShardLoad& load) const {
    return std::max(all_us_ > 0 ? TransferUs(load, options_.costs) / all_us_ : 0,
                    load.table_bytes / std::max(all_bytes_, 1.0));
  }

  // Whether the shard has a part of the table. A second part would double the bytes of its answer.
  static bool HasPartOf(size_t table, ArrayRef<PlannedPart> shard) {
    return std::any_of(shard.begin(), shard.end(),
                       [&](const PlannedPart& part) { return part.table == table; });
  }

  Result<void> Place(const PlannedPart& piece) {
    const ShardLoad load = LoadOf(tables_[piece.table], piece);
    std::optional<size_t> best;
    double least = 0;
    for (size_t i = 0; i < plan_.shards.size(); ++i) {
      ShardLoad sum = plan_.loads[i];
      Add(load, options_.costs, sum);
      const bool fits = options_.most_bytes <= 0 || sum.table_bytes <= options_.most_bytes;
      if (!fits || HasPartOf(piece.table, plan_.shards[i]) || (best && Share(sum) >= least))
        continue;
      best = i;
      least = Share(sum);
    }
    if (!best) {
      return Fail(
          ErrorKind::kUsage,
          fmt::format("--shard-memory: the tables take {:.0f} bytes, and {} of {:.0f} bytes "
                      "each have no room for {:.0f} bytes of table \"{}\"",
                      all_bytes_, Plural(options_.shards, "shard"), options_.most_bytes,
                      load.table_bytes, tables_[piece.table].table));
    }
    plan_.shards[*best].push_back(piece);
    Add(load, options_.costs, plan_.loads[*best]);
    return {};
  }

  const ArrayRef<TableDemand> tables_;
  const ShardPlanOptions& options_;
  ShardPlan plan_;
  std::vector<size_t> moved_;
  std::vector<PlannedPart> pieces_;
  double all_bytes_ = 0, all_us_ = 0;
};

}  // namespace

double TableDemand::Traffic(int64_t first, int64_t end) const {
  if (rows_looked_up.empty()) return static_cast<double>(end - first) / static_cast<double>(rows);
  const auto from = std::lower_bound(rows_looked_up.begin(), rows_looked_up.end(), first);
  const auto to = std::lower_bound(from, rows_looked_up.end(), end);
  return static_cast<double>(to - from) / static_cast<double>(rows_looked_up.size());
}

DenseLoad DenseLoadOf(const ShardPlan& plan, const ClusterCosts& costs, double own_us) {
  DenseLoad dense{0, 0, 0, own_us};
  for (const ShardLoad& load : plan.loads) {
    dense.id_bytes += load.id_bytes;
    dense.wire_bytes += load.wire_bytes;
  }
  dense.link_us = 1e6 * (dense.id_bytes + dense.wire_bytes) / costs.network_bandwidth;
  return dense;
}

BatchTimes BatchTimesOf(const ShardPlan& plan, const ClusterCosts& costs, double own_us) {
  const double link_us = 1e6 / costs.network_bandwidth;  // time of one byte
  double sent_us = 0, slowest_us = 0;
  std::vector<std::pair<double, double>> answers;  // when they are ready, and their bytes
  for (const ShardLoad& load : plan.loads) {
    sent_us += load.id_bytes * link_us;
    const double read_us = 1e6 * load.row_bytes / costs.row_bandwidth;
    slowest_us = std::max(slowest_us, read_us);
    answers.emplace_back(sent_us + costs.message_us + read_us, load.wire_bytes);
  }
  std::sort(answers.begin(), answers.end());
  double end_us = 0;
  for (const auto& [ready_us, bytes] : answers)
    end_us = std::max(end_us, ready_us) + bytes * link_us;
  const double link_of_all_us = DenseLoadOf(plan, costs, own_us).link_us;
  return {end_us + own_us, costs.message_us + slowest_us + link_of_all_us + own_us};
}

Result<ShardPlan> PlanShards(ArrayRef<TableDemand> tables, const ShardPlanOptions& options) {
  return Planner(tables, options).Run();
}

}  // namespace fusec
