#include "compiler/driver/shard/demands.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/driver/artifact/tensor_files.h"
#include "compiler/ir/op_def.h"
#include "compiler/reference/interpreter.h"
#include "passes/graph_edit.h"
#include "passes/shard_graph.h"

namespace fusec {

namespace {

// Larger tables are not cut by columns, because such parts are copies in memory, while parts by
// rows are views into the model's file.
constexpr double kMostBytesCutByColumns = 4e9;

double At(const Expr& expression, const std::map<std::string, int64_t>& dims) {
  const auto value = expression.Evaluate(dims);
  return value ? static_cast<double>(*value) : 0;
}

const Node* FindConstant(const Graph& graph, const std::string& name) {
  const auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const auto& node) {
    return node->kind == OpKind::kConstant && node->result()->name == name;
  });
  return found == graph.nodes.end() ? nullptr : found->get();
}

// The values that are ids of rows of the table, each once.
std::vector<Value*> IdsOf(const Graph& graph, const TableDemand& table) {
  std::vector<Value*> ids;
  for (const auto& node : graph.nodes) {
    const bool looks_up =
        node->kind == OpKind::kGather && node->operand(0)->name == table.constants.front();
    if (looks_up && std::find(ids.begin(), ids.end(), node->operand(1)) == ids.end())
      ids.push_back(node->operand(1));
  }
  return ids;
}

double BytesOfIds(const Graph& graph, const TableDemand& table,
                  const std::map<std::string, int64_t>& dims) {
  double bytes = 0;
  for (const Value* ids : IdsOf(graph, table)) bytes += At(ids->type.Bytes(), dims);
  return bytes;
}

double BytesOnWire(const Graph& graph, const TableSeam& seam,
                   const std::map<std::string, int64_t>& dims, Wire wire) {
  double bytes = 0;
  for (const auto& node : graph.nodes) {
    const Value* value = node->result();
    if (std::find(seam.crossing.begin(), seam.crossing.end(), value->name) == seam.crossing.end())
      continue;
    for (const TensorType& type : TypesOnWire(value->type, wire)) bytes += At(type.Bytes(), dims);
  }
  return bytes;
}

}  // namespace

Result<Demands> DemandsOf(const SimplifiedModel& model, const std::map<std::string, int64_t>& dims,
                          Wire wire) {
  const Graph& graph = *model.graph;
  std::set<std::string> constants;
  std::vector<RowTable> tables;
  for (RowTable& table : model.tables.Finish(graph)) {
    if (!table.is_looked_up || FindConstant(graph, table.constant) == nullptr) continue;
    constants.insert(table.constant);
    if (!table.factors.empty()) constants.insert(table.factors);
    tables.push_back(std::move(table));
  }
  const SeamFinder finder(graph, constants, dims);
  Demands demands;
  for (const RowTable& table : tables) {
    TableDemand& demand = demands.tables.emplace_back();
    demand.table = table.table;
    demand.constants = {table.constant};
    if (!table.factors.empty()) demand.constants.push_back(table.factors);
    demand.rows = table.rows;
    for (const std::string& name : demand.constants) {
      const TensorType& type = FindConstant(graph, name)->result()->type;
      demand.row_bytes += type.Bytes().AsConstant().value_or(0) / table.rows;
    }
    const TableSeam& whole =
        demands.whole.emplace_back(finder.Find(demand.constants, TableCut::kNone));
    const TableSeam& cut =
        demands.cut_by_rows.emplace_back(finder.Find(demand.constants, TableCut::kRows));
    const TableSeam& narrow =
        demands.cut_by_columns.emplace_back(finder.Find(demand.constants, TableCut::kColumns));
    if (narrow.stays.empty() && demand.bytes() <= kMostBytesCutByColumns) {
      demand.columns = table.columns;
      demand.wire_bytes_by_columns = BytesOnWire(graph, narrow, dims, wire);
    }
    demand.stays = table.fixed.empty() ? whole.stays : table.fixed;
    demand.stays_whole = cut.stays;
    demand.look_ups = At(whole.look_ups, dims);
    demand.id_bytes = BytesOfIds(graph, demand, dims);
    demand.wire_bytes = BytesOnWire(graph, whole, dims, wire);
    demand.wire_bytes_of_part = BytesOnWire(graph, cut, dims, wire);
  }
  return demands;
}

Result<void> AddProfile(const Graph& graph, const std::string& path, Demands& demands) {
  FUSEC_ASSIGN(const NamedTensors arrays, ReadNpz(path));
  for (TableDemand& table : demands.tables) {
    if (!table.stays.empty()) continue;
    std::unique_ptr<Graph> ids = graph.Clone();
    const std::vector<Value*> outputs = IdsOf(*ids, table);
    ids->outputs.assign(outputs.begin(), outputs.end());
    ids->output_names.clear();
    ids->run_time_sizes.clear();
    KeepWhatIsRead(*ids);
    std::vector<ReferenceTensor> inputs;
    for (size_t i = 0; i < ids->inputs.size(); ++i) {
      const auto found = std::find_if(arrays.begin(), arrays.end(), [&](const auto& array) {
        return array.first == ids->InputName(i);
      });
      if (found == arrays.end())
        return Fail(
            ErrorKind::kInput,
            fmt::format("{}: has no array \"{}\", from which the ids of table \"{}\" are computed",
                        path, ids->InputName(i), table.table));
      if (found->second.dtype() != ids->inputs[i]->type.dtype)
        return Fail(ErrorKind::kInput, fmt::format("{}: array \"{}\" is {}, expected {}", path,
                                                   found->first, DtypeName(found->second.dtype()),
                                                   DtypeName(ids->inputs[i]->type.dtype)));
      inputs.push_back(ReferenceTensor::FromData(found->second));
    }
    const auto values = Interpret(*ids, inputs);
    if (!values) return Fail(ErrorKind::kInput, path + ": " + values.error().message);
    for (const ReferenceTensor& value : *values) {
      for (const int64_t id : value.ints) {
        const int64_t row = id < 0 ? id + table.rows : id;
        if (row < 0 || row >= table.rows)
          return Fail(ErrorKind::kInput,
                      fmt::format("{}: id {} is outside the {} rows of table \"{}\"", path, id,
                                  table.rows, table.table));
        table.rows_looked_up.push_back(row);
      }
    }
    std::sort(table.rows_looked_up.begin(), table.rows_looked_up.end());
  }
  return {};
}

}  // namespace fusec
