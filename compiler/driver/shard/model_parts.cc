#include "compiler/driver/shard/model_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "passes/shard_graph.h"

namespace fusec {

namespace {

std::vector<std::vector<TablePart>> PartsOf(const Demands& demands, const ShardPlan& plan) {
  std::vector<std::vector<TablePart>> shards;
  for (const auto& planned : plan.shards) {
    std::vector<TablePart>& parts = shards.emplace_back();
    for (const PlannedPart& part : planned) {
      const TableDemand& table = demands.tables[part.table];
      TablePart& made = parts.emplace_back(TablePart{table.table,
                                                     table.constants,
                                                     table.rows,
                                                     part.first_row,
                                                     part.end_row,
                                                     part.first_column,
                                                     part.end_column,
                                                     {}});
      const std::vector<TableSeam>& seams = made.is_whole()          ? demands.whole
                                            : made.has_all_columns() ? demands.cut_by_rows
                                                                     : demands.cut_by_columns;
      made.seam = seams[part.table];
    }
  }
  return shards;
}

// The contents of a part's artifact besides its graph, from those of the whole model.
ArtifactContents ContentsOf(const ArtifactContents& whole,
                            const std::map<std::string, PartStart>& tables, bool is_dense) {
  ArtifactContents contents = whole;
  std::erase_if(contents.stored_tables,
                [&](const StoredTable& table) { return tables.count(table.table) == 0; });
  contents.warnings.clear();  // they are reported once, for the whole model
  if (!is_dense) {
    contents.adapters.reset();
    contents.requests.reset();
  }
  return contents;
}

}  // namespace

Result<std::vector<ModelPart>> TakeApart(const SimplifiedModel& model, const Demands& demands,
                                         const ShardPlan& plan, Wire wire) {
  const std::vector<std::vector<TablePart>> shards = PartsOf(demands, plan);
  FUSEC_ASSIGN(ShardedGraph taken, TakeApart(*model.graph, shards, wire));
  std::vector<ModelPart> parts;
  const auto add = [&](std::string folder, std::unique_ptr<Graph> graph,
                       std::map<std::string, PartStart> tables, bool is_dense) {
    parts.push_back({std::move(folder),
                     {std::move(graph), model.targets, model.title,
                      ContentsOf(model.contents, tables, is_dense), model.initializers,
                      model.manager, model.tables},
                     std::move(tables)});
  };
  for (size_t i = 0; i < shards.size(); ++i) {
    std::map<std::string, PartStart> tables;
    for (const TablePart& part : shards[i])
      tables[part.table] = {part.first_row, part.first_column};
    add(fmt::format("shard_{}", i), std::move(taken.shards[i]), std::move(tables), false);
    for (const TablePart& part : shards[i]) {
      if (part.is_whole()) continue;
      ModelPart& made = parts.back();
      made.model.tables.Cut(*made.model.graph, part.table);
    }
  }
  std::map<std::string, PartStart> kept;
  for (const KeptTable& table : plan.kept) kept[demands.tables[table.table].table] = {};
  add("dense", std::move(taken.dense), std::move(kept), true);
  return parts;
}

Result<FusedModel> FusePart(const ModelPart& part, const CompileOptions& options) {
  FUSEC_ASSIGN(FusedModel fused, FuseSimplified(part.model, options));
  std::erase_if(fused.contents.tables,
                [&](const RowTable& table) { return part.tables.count(table.table) == 0; });
  return fused;
}

}  // namespace fusec
