#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/result.h"
#include "passes/table_seam.h"

namespace fusec {

// What one shard holds of an embedding table: all of it, or a range of its rows or of its columns.
struct TablePart {
  std::string table;                   // the model's name
  std::vector<std::string> constants;  // of the graph: the rows, and their factors if there are any
  int64_t rows = 0;                    // of the whole table
  int64_t first_row = 0, end_row = 0;  // [first_row, end_row) are here
  // [first_column, end_column) are here; all of them where end_column is 0.
  int64_t first_column = 0, end_column = 0;
  TableSeam seam;

  bool has_all_rows() const { return first_row == 0 && end_row == rows; }
  bool has_all_columns() const { return end_column == 0; }
  bool is_whole() const { return has_all_rows() && has_all_columns(); }
};

// How f32 values cross from shards: as they are, rounded, or as 8 bits an element and a scale for
// each row of the last axis (max |x| / 127: an element moves by at most half of that).
enum class Wire { kExact, kF16, kBF16, kInt8 };
const char* WireName(Wire wire);  // "f32", "f16", "bf16", "int8"
std::optional<Wire> ParseWire(std::string_view name);
// The types of what crosses for a value of that type: its elements, and their scales if there are
// any.
SmallVector<TensorType, 2> TypesOnWire(const TensorType& type, Wire wire);

// A model taken apart at the seams of its tables. Shards have inputs of the model and give the
// values that cross, side by side in one tensor where their other dims are equal; `dense` has these
// for inputs beside those of the model that it reads, adds up what parts of a table give or puts
// their columns side by side, and gives the model's outputs.
struct ShardedGraph {
  std::vector<std::unique_ptr<Graph>> shards;
  std::unique_ptr<Graph> dense;
};

// `graph`: after the passes that all targets share. `shards`: by shard, what it holds; every part
// of a table that is cut is on one of them. An id outside the whole table is outside the part that
// has the end next to it, which fails the run.
Result<ShardedGraph> TakeApart(const Graph& graph, ArrayRef<std::vector<TablePart>> shards,
                               Wire wire);

// Removes nodes that no output needs, inputs that are not read (but for those that alone say how
// large a dim is), and symbols of neither.
void KeepWhatIsRead(Graph& graph);

}  // namespace fusec
