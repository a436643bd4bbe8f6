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
  std::string name;            // in the model
  std::vector<Node*> gathers;  // at least one; they read it directly or through identities

  // Whether the name matches a shell-style glob.
  bool Matches(const std::string& pattern) const;
};

// The tables of the graph, in graph order. `names` maps the graph's names of constants to the
// model's; a constant that is not in it has the same name in both.
std::vector<EmbeddingTable> EmbeddingTables(const Graph& graph,
                                            const std::map<std::string, std::string>& names);

// The usage error for a flag whose pattern matches no table. If the pattern matches a constant, it
// says why that is not a table; otherwise it lists the tables. `flag` is the flag as typed, such as
// "--table-storage emb.*=int8".
tl::unexpected<Error> NoSuchTable(const std::string& flag, const std::string& pattern,
                                  const Graph& graph,
                                  const std::map<std::string, std::string>& names);

}  // namespace fusec
