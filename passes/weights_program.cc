#include "passes/weights_program.h"

#include <set>

#include "compiler/reference/interpreter.h"
#include "compiler/support/adt.h"
#include "compiler/support/check.h"

namespace fusec {

namespace {

class ProgramWriter {
 public:
  explicit ProgramWriter(Graph& graph) : graph_(graph) {}

  void AddInitializer(const Derivation& initializer, const std::string& name) {
    auto value = std::make_unique<Value>();
    value->name = Unused(initializer.name);
    value->type = initializer.type;
    value->result_index = static_cast<int>(graph_.inputs.size());
    known_[&initializer] = value.get();
    graph_.inputs.push_back(std::move(value));
    graph_.input_names.push_back(name);
  }

  Value* Write(const Derivation& derivation) {
    if (const auto known = known_.find(&derivation); known != known_.end()) return known->second;
    FUSEC_CHECK(!derivation.is_initializer, derivation.name + " is no initializer of the model");
    return known_[&derivation] =
               derivation.program ? WriteMade(derivation) : WriteChosen(derivation);
  }

 private:
  Value* WriteChosen(const Derivation& chosen) {
    auto node = std::make_unique<Node>();
    node->kind = OpKind::kConstant;
    node->constant = chosen.data;
    node->constant_hash = chosen.hash;
    return Append(std::move(node), chosen, {Value{chosen.name, chosen.type}})->result();
  }

  Value* WriteMade(const Derivation& made) {
    DenseMap<const Value*, Value*> values;
    for (size_t i = 0; i < made.sources.size(); ++i)
      values[made.program->inputs[i].get()] = Write(*made.sources[i]);
    const Value* output = made.program->outputs[0];
    for (const auto& node : made.program->nodes) {
      auto copy = std::make_unique<Node>();
      copy->kind = node->kind;
      copy->attributes = node->attributes;
      copy->constant = node->constant;
      copy->constant_hash = node->constant_hash;
      for (const Value* operand : node->operands)
        copy->operands.push_back(operand ? values.at(operand) : nullptr);
      std::vector<Value> results;
      for (const auto& result : node->results) {
        const bool is_last = result.get() == output;
        results.push_back({is_last ? made.name : made.name + "." + result->name, result->type});
      }
      const Node* added = Append(std::move(copy), made, std::move(results));
      for (size_t r = 0; r < node->results.size(); ++r)
        values[node->results[r].get()] = added->results[r].get();
    }
    return values.at(output);
  }

  const Node* Append(std::unique_ptr<Node> node, const Derivation& derivation,
                     std::vector<Value> results) {
    node->provenance = {Origin{derivation.pass}};
    for (Value& result : results) {
      auto value = std::make_unique<Value>(std::move(result));
      value->name = Unused(value->name);
      value->producer = node.get();
      value->result_index = static_cast<int>(node->results.size());
      node->results.push_back(std::move(value));
    }
    graph_.nodes.push_back(std::move(node));
    return graph_.nodes.back().get();
  }

  std::string Unused(const std::string& wanted) {
    std::string name = wanted;
    for (int i = 1; !names_.insert(name).second; ++i) name = wanted + "_" + std::to_string(i);
    return name;
  }

  Graph& graph_;
  DenseMap<const Derivation*, Value*> known_;
  std::set<std::string> names_;
};

const std::string& ModelNameOf(const Derivation& initializer,
                               const std::map<std::string, std::string>& names) {
  const auto named = names.find(initializer.name);
  return named == names.end() ? initializer.name : named->second;
}

// All derivations that the constants were made from, or that were replaced by an equal constant,
// each once, sources first.
class Reached {
 public:
  explicit Reached(ArrayRef<FinalConstant> constants) {
    for (const FinalConstant& constant : constants) Visit(*constant.derivation);
  }
  const std::vector<const Derivation*>& all() const { return all_; }

 private:
  void Visit(const Derivation& derivation) {
    if (!seen_.insert(&derivation).second) return;
    for (const auto& source : derivation.sources) Visit(*source);
    for (const auto& equal : derivation.equals) Visit(*equal);
    all_.push_back(&derivation);
  }
  SmallPtrSet<const Derivation*, 16> seen_;
  std::vector<const Derivation*> all_;
};

}  // namespace

std::vector<FinalConstant> FinalConstants(ArrayRef<std::shared_ptr<const Graph>> graphs) {
  std::map<std::string, std::string> hashes;  // by name
  std::set<std::string> hashed;               // names to which a hash was appended
  std::vector<FinalConstant> constants;
  for (const auto& graph : graphs) {
    for (const auto& node : graph->nodes) {
      if (node->kind != OpKind::kConstant) continue;
      std::string name = node->result()->name;
      const auto [first, is_new] = hashes.emplace(name, node->constant_hash);
      if (!is_new && first->second == node->constant_hash) continue;
      if (!is_new) name += "." + node->constant_hash;
      if (is_new || hashed.insert(name).second)
        constants.push_back({std::move(name), node->derivation});
    }
  }
  return constants;
}

std::vector<Specialization> Specializations(const Derivations& initializers,
                                            ArrayRef<FinalConstant> constants,
                                            const std::map<std::string, std::string>& names) {
  using Kind = Specialization::Kind;
  std::vector<Specialization> specializations;
  const auto add = [&](Kind kind, const std::shared_ptr<Derivation>& of, const std::string& pass,
                       const std::string& constant) {
    for (const auto& initializer : InitializersOf(of)) {
      specializations.push_back(
          {kind, ModelNameOf(*initializer, names), initializer->hash, pass, constant});
    }
  };
  for (const auto& initializer : initializers) {
    for (const std::string& pass : initializer->deciders)
      add(Kind::kDecided, initializer, pass, "");
  }
  const Reached everything(constants);
  for (const Derivation* reached : everything.all()) {
    const std::string& name =
        reached->is_initializer ? ModelNameOf(*reached, names) : reached->name;
    for (const auto& equal : reached->equals) add(Kind::kEqual, equal, "eliminate-common", name);
    if (reached->program) continue;
    for (const auto& source : reached->sources) add(Kind::kFrozen, source, reached->pass, name);
  }
  return specializations;
}

std::unique_ptr<Graph> WeightsProgram(const Derivations& initializers,
                                      ArrayRef<FinalConstant> constants,
                                      const std::map<std::string, std::string>& names) {
  auto graph = std::make_unique<Graph>();
  graph->name = "weights";
  ProgramWriter writer(*graph);
  for (const auto& initializer : initializers)
    writer.AddInitializer(*initializer, ModelNameOf(*initializer, names));
  for (const FinalConstant& constant : constants) {
    graph->outputs.push_back(writer.Write(*constant.derivation));
    graph->output_names.push_back(constant.name);
  }
  return graph;
}

Result<std::vector<TensorData>> RunWeightsProgram(const Graph& program,
                                                  ArrayRef<TensorData> inputs) {
  DenseMap<const Value*, TensorData> values;
  for (size_t i = 0; i < inputs.size(); ++i) values[program.inputs[i].get()] = inputs[i];
  for (const auto& node : program.nodes) {
    if (node->kind == OpKind::kConstant) {
      values[node->result()] = node->constant;
      continue;
    }
    std::vector<ReferenceTensor> operands;
    for (const Value* operand : node->operands) {
      if (operand) operands.push_back(ReferenceTensor::FromData(values.at(operand)));
    }
    FUSEC_ASSIGN(const auto results, InterpretNode(*node, operands));
    for (size_t r = 0; r < results.size(); ++r)
      values[node->results[r].get()] = results[r].ToData();
  }
  std::vector<TensorData> outputs;
  for (const Value* output : program.outputs) outputs.push_back(values.at(output));
  return outputs;
}

}  // namespace fusec
