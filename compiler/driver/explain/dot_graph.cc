#include "compiler/driver/explain/dot_graph.h"

#include "compiler/ir/op_def.h"
#include "compiler/support/adt.h"
#include "compiler/support/terminal.h"

namespace fusec {

namespace {

constexpr size_t kShownWeights = 3;  // if an op reads more weights, they are drawn as one note

class DotWriter {
 public:
  explicit DotWriter(const Explanation& explanation) : e_(explanation) {}

  std::string Write() {
    Line("digraph " + DotQuoted(e_.model) + " {");
    Line("  rankdir=TB; node [fontname=\"Helvetica\", shape=box]; edge [fontname=\"Helvetica\"];");
    Line("  label=" + DotQuoted(e_.model + ", target " + e_.target + ", " + DimsText(e_.dims)) +
         ";");
    for (size_t i = 0; i < e_.graph->inputs.size(); ++i) {
      const Value* input = e_.graph->inputs[i].get();
      AddNode(input, "shape=ellipse", e_.graph->InputName(i) + "\n" + TypeText(*input));
    }
    const auto regions = e_.regions();
    for (size_t i = 0; i < regions.size(); ++i) WriteCluster(i, *regions[i]);
    for (size_t i = 0; i < e_.graph->outputs.size(); ++i) {
      const std::string id = "output_" + std::to_string(i);
      const Value* output = e_.graph->outputs[i];
      Line("  " + id + " [shape=ellipse, label=" + DotQuoted(e_.graph->OutputName(i)) + "];");
      WriteEdge(ids_.at(output), id, *output, true);
    }
    text_ += edges_;
    Line("}");
    return std::move(text_);
  }

 private:
  void Line(const std::string& line) { text_ += line + "\n"; }

  std::string AddNode(const Value* value, const std::string& style, const std::string& label) {
    const std::string id = "n" + std::to_string(count_++);
    ids_[value] = id;
    Line("  " + id + " [" + style + ", label=" + DotQuoted(label) + "];");
    return id;
  }

  static std::string TypeText(const Value& value) { return value.type.ToString(); }

  int64_t Bytes(const Value& value) const {
    return value.type.Bytes().Evaluate(e_.dims).value_or(0);
  }

  void WriteEdge(const std::string& from, const std::string& to, const Value& value,
                 bool in_memory) {
    const std::string label =
        TypeText(value) +
        (in_memory ? "\n" + FormatBytes(static_cast<double>(Bytes(value))) : std::string());
    edges_ += "  " + from + " -> " + to + " [label=" + DotQuoted(label) +
              (in_memory ? ", penwidth=2" : ", color=gray, fontcolor=gray") + "];\n";
  }

  void WriteCluster(size_t number, const Node& region) {
    const ExplainedStep& step = e_.steps[number];
    Line("  subgraph cluster_" + std::to_string(number) + " {");
    Line("    label=" +
         DotQuoted(step.name + "\n" + step.op_class + ", " +
                   FormatBytes(static_cast<double>(step.bytes_read)) + " read, " +
                   FormatBytes(static_cast<double>(step.bytes_written)) + " written") +
         "; style=\"rounded,filled\"; fillcolor=\"#eef3fb\";");
    for (const auto& node : region.body->nodes) {
      const std::string id = "n" + std::to_string(count_++);
      for (const auto& result : node->results) ids_[result.get()] = id;
      Line("    " + id + " [label=" +
           DotQuoted(std::string(GetOpDef(node->kind).text) + "\n" + node->result()->name) + "];");
    }
    Line("  }");
    DenseMap<const Value*, const Value*> outside;  // never iterated, as its order varies
    for (size_t i = 0; i < region.operands.size(); ++i)
      outside[region.body->inputs[i].get()] = region.operands[i];
    for (const auto& node : region.body->nodes) WriteOperands(*node, outside);
    for (size_t i = 0; i < region.results.size(); ++i) {
      const std::string id = ids_.at(region.body->outputs[i]);
      ids_[region.result(static_cast<int>(i))] = id;
    }
  }

  void WriteOperands(const Node& node, const DenseMap<const Value*, const Value*>& outside) {
    const std::string id = ids_.at(node.result());
    std::vector<const Value*> weights;
    for (const Value* operand : node.operands) {
      if (!operand) continue;
      const auto found = outside.find(operand);
      if (found == outside.end()) {
        WriteEdge(ids_.at(operand), id, *operand, false);
      } else if (IsConstant(found->second)) {
        weights.push_back(found->second);
      } else {
        WriteEdge(ids_.at(found->second), id, *operand, true);
      }
    }
    WriteWeights(id, weights);
  }

  void WriteWeights(const std::string& id, ArrayRef<const Value*> weights) {
    int64_t bytes = 0;
    for (const Value* weight : weights) bytes += Bytes(*weight);
    if (weights.size() > kShownWeights) {
      const std::string note = "n" + std::to_string(count_++);
      Line("  " + note + " [shape=note, label=" +
           DotQuoted(std::to_string(weights.size()) + " weights\n" +
                     FormatBytes(static_cast<double>(bytes))) +
           "];");
      edges_ += "  " + note + " -> " + id + ";\n";
      return;
    }
    for (const Value* weight : weights) {
      if (!ids_.count(weight)) AddNode(weight, "shape=note", weight->name);
      WriteEdge(ids_.at(weight), id, *weight, true);
    }
  }

  const Explanation& e_;
  std::string text_, edges_;
  size_t count_ = 0;
  DenseMap<const Value*, std::string> ids_;  // never iterated, as its order varies
};

}  // namespace

std::string DotQuoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      quoted += std::string("\\") + c;
    else if (c == '\n')
      quoted += "\\n";
    else
      quoted += c;
  }
  return quoted + "\"";
}

std::string DotText(const Explanation& explanation) { return DotWriter(explanation).Write(); }

}  // namespace fusec
