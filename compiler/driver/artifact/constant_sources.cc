#include "compiler/driver/artifact/constant_sources.h"

#include <algorithm>

#include "compiler/ir/op_def.h"
#include "compiler/support/adt.h"
#include "compiler/support/terminal.h"

namespace fusec {

namespace {

void CollectNodes(const Value* value, ValueSet& inputs, NodeSet& nodes) {
  if (!value->producer) {
    inputs.insert(value);
    return;
  }
  if (!nodes.insert(value->producer).second) return;
  for (const Value* operand : value->producer->operands) {
    if (operand) CollectNodes(operand, inputs, nodes);
  }
}

}  // namespace

// The program's output that computes the constant. Where several constants share a name, all but
// one of them have their hash appended to it.
const Value* WeightsTrace::OutputOf(const Node& constant) const {
  const std::string& name = constant.result()->name;
  const std::string hashed = name + "." + constant.constant_hash;
  for (const std::string& wanted : {hashed, name}) {
    const auto& names = program_->output_names;
    const auto found = std::find(names.begin(), names.end(), wanted);
    if (found != names.end()) return program_->outputs[found - names.begin()];
  }
  return nullptr;
}

std::optional<ConstantSources> WeightsTrace::SourcesOf(const Node& constant) const {
  const Value* output = OutputOf(constant);
  if (output == nullptr) return std::nullopt;
  ValueSet inputs;
  NodeSet nodes;
  CollectNodes(output, inputs, nodes);
  ConstantSources sources;
  for (size_t i = 0; i < program_->inputs.size(); ++i) {
    if (inputs.count(program_->inputs[i].get()) != 0)
      sources.initializers.push_back(program_->InputName(i));
  }
  for (const auto& node : program_->nodes) {
    if (nodes.count(node.get()) == 0) continue;
    const std::string pass = node->provenance.empty() ? "" : node->provenance[0].onnx_node;
    const bool is_constant = node->kind == OpKind::kConstant;
    if (is_constant && node.get() != output->producer) continue;
    if (sources.steps.empty() || sources.steps.back().pass != pass)
      sources.steps.push_back({pass, {}});
    if (!is_constant) sources.steps.back().ops.emplace_back(GetOpDef(node->kind).text);
  }
  return sources;
}

std::string StepsText(const ConstantSources& sources) {
  std::vector<std::string> steps;
  for (const ConstantSources::Step& step : sources.steps)
    steps.push_back((step.ops.empty() ? "constant" : CountedText(step.ops)) + " (" + step.pass +
                    ")");
  return Join(steps, "; ");
}

}  // namespace fusec
