#include "compiler/driver/tune/canonical_region.h"

#include <algorithm>

#include "compiler/driver/artifact/artifact_ir.h"
#include "compiler/support/adt.h"
#include "compiler/support/words.h"

namespace fusec {

namespace {

// Renames all values, also those of bodies, to v0, v1, ... in the order of definition, and removes
// the ONNX nodes from which ops came.
void RenameValues(Graph& graph, int& next) {
  const auto rename = [&](Value& value) { value.name = "v" + std::to_string(next++); };
  for (const auto& input : graph.inputs) rename(*input);
  for (const auto& node : graph.nodes) {
    node->provenance.clear();
    if (node->body) {
      node->body->name = "body";
      int inner = 0;
      RenameValues(*node->body, inner);
    }
    for (const auto& result : node->results) rename(*result);
  }
}

// Renames the symbols of a graph to s0, s1, ... in the order in which they occur in its text.
std::string RenameSymbols(const std::string& text, ArrayRef<DimSymbol> known,
                          std::map<std::string, std::string>& renamed) {
  return ReplaceWords(text, [&](std::string_view word, std::string_view before) {
    const bool is_symbol = !before.ends_with("%") &&
                           std::any_of(known.begin(), known.end(), [&](const DimSymbol& symbol) {
                             return symbol.name == word;
                           });
    if (!is_symbol) return std::string(word);
    return renamed.emplace(word, "s" + std::to_string(renamed.size())).first->second;
  });
}

// A graph of the region and, before it, the constants that it reads, in the order in which it reads
// them. Its other operands become inputs.
std::unique_ptr<Graph> Extract(const Graph& fused, size_t number) {
  auto graph = std::make_unique<Graph>();
  graph->name = "region";
  graph->symbols = fused.symbols;
  const std::unique_ptr<Graph> copy = fused.Clone();
  const auto take = [&](const Node* wanted) {
    const auto found = std::find_if(copy->nodes.begin(), copy->nodes.end(),
                                    [&](const auto& node) { return node.get() == wanted; });
    graph->nodes.push_back(std::move(*found));
    copy->nodes.erase(found);
    return graph->nodes.back().get();
  };
  const Node* wanted = RegionsOf(*copy)[number];
  const ValueList operands = wanted->operands;
  DenseMap<const Value*, Value*> given;  // the constant or input that replaces an operand
  for (Value* operand : operands) {
    if (operand == nullptr || given.count(operand) != 0) continue;
    given[operand] = operand;
    if (IsConstant(operand)) {
      take(operand->producer);
      continue;
    }
    given[operand] = graph->AddInput(graph->UniqueName("in"), operand->type);
    graph->input_names.push_back(given[operand]->name);
  }
  Node* region = take(wanted);
  for (Value*& operand : region->operands) {
    if (operand != nullptr) operand = given.at(operand);
  }
  for (const auto& result : region->results) {
    graph->outputs.push_back(result.get());
    graph->output_names.push_back("out" + std::to_string(graph->output_names.size()));
  }
  return graph;
}

// The text without the data of float constants outside of the region's body.
std::string WithoutPayloads(const Graph& graph, std::string text) {
  for (const auto& node : graph.nodes) {
    const bool is_float = node->kind == OpKind::kConstant && IsFloat(node->result()->type.dtype);
    if (!is_float) continue;
    const std::string head = "%" + node->result()->name + " = constant()";
    const size_t begin = text.find(head);
    const size_t end = text.find(" : ", begin);
    if (begin != std::string::npos && end != std::string::npos)
      text.replace(begin + head.size(), end - begin - head.size(), "");
  }
  return text;
}

}  // namespace

Result<CanonicalRegion> Canonicalize(const Graph& fused, size_t number) {
  const std::unique_ptr<Graph> extracted = Extract(fused, number);
  int next = 0;
  RenameValues(*extracted, next);
  extracted->input_names.clear();
  for (const auto& input : extracted->inputs) extracted->input_names.push_back(input->name);
  // The text must not contain symbols that the region does not use, so symbols are declared below.
  const std::vector<DimSymbol> symbols = extracted->symbols;
  extracted->symbols.clear();
  for (const auto& node : extracted->nodes) {
    if (node->body) node->body->symbols.clear();
  }
  CanonicalRegion canonical;
  std::string text = RenameSymbols(Print(*extracted), symbols, canonical.symbols);
  canonical.key = WithoutPayloads(*extracted, text);
  const auto payloads = [&](const std::string& hash) -> std::optional<TensorData> {
    for (const auto& node : extracted->nodes) {
      if (node->kind == OpKind::kConstant && node->constant_hash == hash) return node->constant;
    }
    return std::nullopt;
  };
  std::string declared;
  for (const DimSymbol& symbol : symbols) {
    const auto renamed = canonical.symbols.find(symbol.name);
    if (renamed == canonical.symbols.end()) continue;
    declared += (declared.empty() ? "" : ", ") + renamed->second + " in " +
                std::to_string(symbol.low) + ".." + std::to_string(symbol.high);
  }
  if (!declared.empty()) {
    const size_t brace = text.find(" {\n");
    text.insert(brace, " symbols(" + declared + ")");
  }
  FUSEC_ASSIGN(canonical.graph, Parse(text, payloads));
  return canonical;
}

}  // namespace fusec
