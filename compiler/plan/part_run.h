#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/kernel/kernel_builder.h"
#include "compiler/support/adt.h"

namespace fusec {

// Adjacent parts of a concatenation that are computed in the same way, by the same ops on the same
// tensors. Parts may differ in the table that they read (a constant; all have one row shape), in
// its number of rows, in the tensor that the ids come from (all have one type), and in where a
// slice starts (evenly spaced). So 26 embeddings become one loop over 26 tables instead of 26
// loops.
struct PartRun {
  int count = 0;
  const Value* output =
      nullptr;  // the value of `region`'s body to lower, for part number Symbol("part")
  std::unique_ptr<Node>
      region;  // the ops of the first part; starts and row counts are functions of the part
  DenseMap<const Node*, std::vector<const Node*>> nodes;  // the parts' nodes, by node of `region`
  // The tables (or tensors of one type) that the parts read at one place of the ops, one per part,
  // and the row counts of tables.
  struct TableList {
    std::unique_ptr<Value> stand_in;  // the operand of `region` that stands for table number `part`
    std::vector<const Value*> tables;
    std::vector<int64_t> rows;
    std::string rows_symbol;  // row count in stand_in's shape; "" if all tables have the same
  };
  std::vector<TableList> table_lists;
};

constexpr const char* kPartVariable = "part";

// The longest run of similar parts that begins with parts[0]; nullopt if it has fewer than three.
std::optional<PartRun> FindPartRun(const Node& region, ArrayRef<const Value*> parts);

// How a kernel reads the tables of its runs.
class PartTables {
 public:
  // Declares the parameters and constants of a run, before any loop.
  void Declare(KernelBuilder& builder, const PartRun& run);
  // Defines the row counts of the tables of `part`, a variable of the open scope.
  void DefinePart(KernelBuilder& builder, const PartRun& run);

 private:
  std::unordered_map<const Value*, std::string> rows_arrays_;  // by the stand-in of the tables
};

}  // namespace fusec
