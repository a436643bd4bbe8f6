#include "passes/lineage.h"

#include <algorithm>
#include <set>

#include "passes/recipe.h"

namespace fusec {

namespace {

constexpr const char* kImport = "import";

void Collect(const Graph& graph, const DenseMap<const Value*, const Value*>& outside,
             ConstantReaders& readers) {
  for (const auto& node : graph.nodes) {
    DenseMap<const Value*, const Value*> inside;
    for (size_t i = 0; i < node->operands.size(); ++i) {
      const Value* value = node->operands[i];
      if (const auto found = outside.find(value); found != outside.end()) value = found->second;
      if (!IsConstant(value)) continue;
      if (node->body)
        inside[node->body->inputs[i].get()] = value;
      else
        readers[value].push_back(node.get());
    }
    if (node->body) Collect(*node->body, inside, readers);
  }
}

std::map<const Derivation*, size_t> CountReaders(const Graph& graph) {
  const ConstantReaders readers = ReadersOfConstants(graph);
  std::map<const Derivation*, size_t> counts;
  for (const auto& node : graph.nodes) {
    if (node->kind != OpKind::kConstant) continue;
    const auto found = readers.find(node->result());
    counts[node->derivation.get()] += found == readers.end() ? 0 : found->second.size();
  }
  for (const Value* output : graph.outputs) {
    if (IsConstant(output)) ++counts[output->producer->derivation.get()];
  }
  return counts;
}

void CollectInitializers(const std::shared_ptr<Derivation>& derivation,
                         std::set<const Derivation*>& seen, Derivations& found) {
  if (!seen.insert(derivation.get()).second) return;
  if (derivation->is_initializer) found.push_back(derivation);
  for (const auto& source : derivation->sources) CollectInitializers(source, seen, found);
}

void AddDecider(Derivation& initializer, const std::string& pass) {
  std::vector<std::string>& deciders = initializer.deciders;
  if (std::find(deciders.begin(), deciders.end(), pass) == deciders.end()) deciders.push_back(pass);
}

// The values on which the outputs of a graph depend.
ValueSet LiveValues(const Graph& graph) {
  ValueSet live(graph.outputs.begin(), graph.outputs.end());
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const bool is_live =
        std::any_of((*node)->results.begin(), (*node)->results.end(),
                    [&](const auto& result) { return live.count(result.get()) != 0; });
    if (is_live) live.insert((*node)->operands.begin(), (*node)->operands.end());
  }
  return live;
}

// Records `pass` in the derivations that it made, following their sources; collects these sources
// in `used`.
void SignDerivation(Derivation& made, const std::string& pass, std::set<const Derivation*>& used) {
  if (made.is_initializer || !made.pass.empty()) return;
  made.pass = pass;
  for (const auto& source : made.sources) {
    used.insert(source.get());
    SignDerivation(*source, pass, used);
  }
}

}  // namespace

Derivations InitializersOf(const std::shared_ptr<Derivation>& derivation) {
  std::set<const Derivation*> seen;
  Derivations found;
  CollectInitializers(derivation, seen, found);
  return found;
}

ConstantReaders ReadersOfConstants(const Graph& graph) {
  ConstantReaders readers;
  Collect(graph, DenseMap<const Value*, const Value*>(), readers);
  return readers;
}

Derivations MarkInitializers(Graph& graph, const std::map<std::string, std::string>* names) {
  Derivations initializers;
  const ValueSet live = LiveValues(graph);
  for (const auto& node : graph.nodes) {
    if (node->kind != OpKind::kConstant || node->derivation) continue;
    const std::string& name = node->result()->name;
    const bool is_initializer = names == nullptr || names->count(name) != 0;
    const auto derivation = DerivationOf(node->result());
    if (is_initializer) {
      derivation->is_initializer = true;
      derivation->data = TensorData();
      if (live.count(node->result()) == 0) derivation->deciders.push_back(kImport);
      initializers.push_back(derivation);
    } else {
      derivation->pass = kImport;
    }
  }
  return initializers;
}

LineageRecorder::LineageRecorder(const Graph& before) {
  const auto counts = CountReaders(before);
  for (const auto& node : before.nodes) {
    if (!node->derivation) continue;
    node->derivation->looked_at = false;
    known_.push_back({node->derivation, counts.at(node->derivation.get())});
  }
}

void LineageRecorder::Record(Graph& after, const std::string& pass) const {
  std::set<const Derivation*> used;
  for (const auto& node : after.nodes) {
    if (node->kind != OpKind::kConstant) continue;
    const auto derivation = DerivationOf(node->result());
    SignDerivation(*derivation, pass, used);
    if (!derivation->is_initializer) derivation->name = node->result()->name;
  }
  const auto counts = CountReaders(after);
  for (const Known& known : known_) {
    const Derivation& derivation = *known.derivation;
    const auto left = counts.find(&derivation);
    const bool lost_readers = left == counts.end() || left->second < known.readers;
    if (!derivation.looked_at || !lost_readers || used.count(&derivation) != 0) continue;
    for (const auto& initializer : InitializersOf(known.derivation)) AddDecider(*initializer, pass);
  }
}

}  // namespace fusec
