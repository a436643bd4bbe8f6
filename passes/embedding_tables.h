#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/adt.h"

namespace fusec {

// An embedding table: a constant of floats, [rows, columns], that only gathers along its rows read.
struct EmbeddingTable {
  Node* constant = nullptr;
  std::string name;            // the model's
  std::vector<Node*> gathers;  // at least one; they read it directly or through identities

  // Whether the name matches a glob as shells have it.
  bool Matches(const std::string& pattern) const;
};

// The graph's tables, in its order. `names`: the model's names of constants, by the graph's; a
// constant that is not there has the same.
std::vector<EmbeddingTable> EmbeddingTables(const Graph& graph,
                                            const std::map<std::string, std::string>& names);

// The usage error of a flag whose pattern matches none of the tables. It says why a constant that
// it matches is no table, or else lists the tables. `flag`: as typed, "--table-storage emb.*=int8".
tl::unexpected<Error> NoSuchTable(const std::string& flag, const std::string& pattern,
                                  const Graph& graph,
                                  const std::map<std::string, std::string>& names);

}  // namespace fusec
