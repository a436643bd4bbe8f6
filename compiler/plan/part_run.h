#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/kernel/kernel_builder.h"
#include "compiler/support/adt.h"

namespace fusec {

// Neighbouring parts of a concatenation that are made alike: the same ops on the same tensors, but
// for which table is read (constants of one row shape), how many rows it has, which of several
// tensors of one type the ids come from, and where a slice starts (evenly spaced). 26 embeddings
// become one loop over 26 tables instead of 26 loops.
struct PartRun {
  int count = 0;
  const Value* output =
      nullptr;  // what to lower, a value of `region`'s body, for part number Symbol("part")
  std::unique_ptr<Node>
      region;  // the first part's ops with starts and row counts as functions of the part
  DenseMap<const Node*, std::vector<const Node*>> nodes;  // of `region`: those of all parts
  // The tables, or tensors of one type, one list per place in the ops where one is read, and the
  // row counts of tables.
  struct TableList {
    std::unique_ptr<Value> stand_in;  // the operand of `region` that means "table number part"
    std::vector<const Value*> tables;
    std::vector<int64_t> rows;
    std::string rows_symbol;  // names its row count in stand_in's shape; "" if all have the same
  };
  std::vector<TableList> table_lists;
};

constexpr const char* kPartVariable = "part";

// The longest run of parts, from `parts[0]` on, that are alike; nullopt below three.
std::optional<PartRun> FindPartRun(const Node& region, ArrayRef<const Value*> parts);

// How a kernel reads the tables of its runs.
class PartTables {
 public:
  // Parameters and constants of a run, before any loop.
  void Declare(KernelBuilder& builder, const PartRun& run);
  // `part` is known in the open scope: so are the row counts of its tables.
  void DefinePart(KernelBuilder& builder, const PartRun& run);

 private:
  std::unordered_map<const Value*, std::string> rows_arrays_;  // by the tables' stand-in
};

}  // namespace fusec
