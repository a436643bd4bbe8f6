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
  int64_t first_row = 0, end_row = 0;  // the shard holds rows [first_row, end_row)
  // The shard holds columns [first_column, end_column), or all columns if end_column is 0.
  int64_t first_column = 0, end_column = 0;
  TableSeam seam;

  bool has_all_rows() const { return first_row == 0 && end_row == rows; }
  bool has_all_columns() const { return end_column == 0; }
  bool is_whole() const { return has_all_rows() && has_all_columns(); }
};

// How f32 values are sent from shards: unchanged, rounded to 16 bits, or as 8 bits per element with
// one scale for each row along the last axis (max |x| / 127; an element changes by at most half of
// the scale).
enum class Wire { kExact, kF16, kBF16, kInt8 };
const char* WireName(Wire wire);  // "f32", "f16", "bf16", "int8"
std::optional<Wire> ParseWire(std::string_view name);
// The types of the tensors that are sent for a value of that type: its elements, and their scales
// if there are any.
SmallVector<TensorType, 2> TypesOnWire(const TensorType& type, Wire wire);

// A model that is split at the seams of its tables (table_seam.h). Shards take inputs of the model
// and return the values that cross the seams, concatenated into one tensor where their other dims
// are equal. `dense` takes these tensors and the inputs of the model that it reads. For a table
// that is cut, it adds up what its parts return, or puts their columns side by side. It returns the
// model's outputs.
struct ShardedGraph {
  std::vector<std::unique_ptr<Graph>> shards;
  std::unique_ptr<Graph> dense;
};

// `graph`: the model after the passes that all targets share. `shards`: the table parts that each
// shard holds; together they hold every part of a table that is cut. An id outside the whole table
// goes to the part at the nearer end of the table, where it is out of range and fails the run.
Result<ShardedGraph> TakeApart(const Graph& graph, ArrayRef<std::vector<TablePart>> shards,
                               Wire wire);

// Removes nodes that no output needs, inputs that no node reads (except where only that input gives
// the size of a dim that is needed), and symbols that no remaining input has.
void KeepWhatIsRead(Graph& graph);

}  // namespace fusec
