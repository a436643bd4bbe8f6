#include "passes/embedding_tables.h"

#include <fmt/format.h>

#include "compiler/ir/op_def.h"
#include "compiler/support/glob.h"
#include "compiler/support/terminal.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

// The readers of a constant, directly or through identities.
struct TableReaders {
  std::vector<Node*> gathers;       // along its rows
  std::vector<const Node*> others;  // readers that are not such gathers
  bool is_output = false;
};

void Collect(const Graph& graph, const ReaderMap& readers, const Value* value,
             TableReaders& found) {
  found.is_output = found.is_output || IsOutput(graph, value);
  const auto of_value = readers.find(value);
  if (of_value == readers.end()) return;
  for (Node* reader : of_value->second) {
    if (reader->kind == OpKind::kIdentity) {
      Collect(graph, readers, reader->result(), found);
      continue;
    }
    const bool looks_up = reader->kind == OpKind::kGather && reader->Int("axis") == 0 &&
                          reader->operand(0) == value && reader->operand(1) != value;
    if (looks_up)
      found.gathers.push_back(reader);
    else
      found.others.push_back(reader);
  }
}

bool HasRows(const Node& constant) {
  const TensorData* data = StoredData(constant.result());
  return data != nullptr && IsFloat(data->dtype()) && data->dims().size() == 2 &&
         data->element_count() > 0;
}

constexpr const char* kWhatATableIs =
    "a table is a constant of floats [rows, columns] that only gathers along its rows read";

std::string WhyNoTable(const Graph& graph, const ReaderMap& readers, const Node& constant) {
  if (!HasRows(constant)) return "it is " + constant.result()->type.ToString();
  TableReaders found;
  Collect(graph, readers, constant.result(), found);
  std::vector<std::string> reasons;
  for (const Node* reader : found.others)
    reasons.push_back(fmt::format("{} \"{}\" reads it", GetOpDef(reader->kind).text,
                                  reader->results.front()->name));
  if (found.is_output) reasons.push_back("it is an output");
  return reasons.empty() ? "nothing reads it" : Join(reasons, ", ");
}

}  // namespace

bool EmbeddingTable::Matches(const std::string& pattern) const {
  return MatchesGlob(pattern, name);
}

std::vector<EmbeddingTable> EmbeddingTables(const Graph& graph,
                                            const std::map<std::string, std::string>& names) {
  const ReaderMap readers = Readers(graph);
  std::vector<EmbeddingTable> tables;
  for (const auto& node : graph.nodes) {
    if (node->kind != OpKind::kConstant || !HasRows(*node)) continue;
    TableReaders found;
    Collect(graph, readers, node->result(), found);
    if (found.is_output || !found.others.empty() || found.gathers.empty()) continue;
    tables.push_back({node.get(), ModelName(*node->result(), names), std::move(found.gathers)});
  }
  return tables;
}

tl::unexpected<Error> NoSuchTable(const std::string& flag, const std::string& pattern,
                                  const Graph& graph,
                                  const std::map<std::string, std::string>& names) {
  constexpr size_t kMostListed = 30;
  const std::vector<EmbeddingTable> tables = EmbeddingTables(graph, names);
  std::vector<std::string> listed;
  for (const EmbeddingTable& table : tables) {
    if (listed.size() < kMostListed)
      listed.push_back(table.name + " " + table.constant->result()->type.ToString());
  }
  if (tables.size() > listed.size())
    listed.push_back(fmt::format("and {} more", tables.size() - listed.size()));
  std::string why = "no embedding table has such a name";
  const ReaderMap readers = Readers(graph);
  for (const auto& node : graph.nodes) {
    if (node->kind != OpKind::kConstant || !MatchesGlob(pattern, ModelName(*node->result(), names)))
      continue;
    why = fmt::format("\"{}\" is no embedding table, for {}", ModelName(*node->result(), names),
                      WhyNoTable(graph, readers, *node));
    break;
  }
  return Fail(ErrorKind::kUsage,
              fmt::format("{}: {}; {}", flag, why,
                          listed.empty() ? fmt::format("the model has none ({})", kWhatATableIs)
                                         : "there are " + Join(listed, ", ")));
}

}  // namespace fusec
