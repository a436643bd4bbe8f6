#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "compiler/ir/graph.h"
#include "compiler/ir/lexer.h"
#include "compiler/ir/op_def.h"

namespace fusec {
namespace {

// Constants of at most this many elements are printed with their values, bigger ones with their
// hash.
constexpr int64_t kInlineElements = 16;
constexpr size_t kColumns = 100;

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += fmt::format("\\{}", c);
    else if (c == '\n') quoted += "\\n";
    else if (c == '\t') quoted += "\\t";
    else if (static_cast<unsigned char>(c) < 0x20) quoted += fmt::format("\\x{:02x}", c);
    else quoted += c;
  }
  return quoted + '"';
}

// The shortest text that reads back as the same number, always recognizable as a float.
template <class T>
std::string FloatText(T value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

// NaNs that differ from the one that the word "nan" stands for keep their bits: nan(4290772992).
std::string ElementText(const TensorData& data, int64_t i) {
  if (data.dtype() == Dtype::kBool) return data.GetInt(i) != 0 ? "true" : "false";
  if (data.dtype() == Dtype::kU64) return fmt::to_string(static_cast<uint64_t>(data.GetInt(i)));
  if (!IsFloat(data.dtype())) return fmt::to_string(data.GetInt(i));
  const double value = data.GetDouble(i);
  if (std::isnan(value)) {
    TensorData plain(data.dtype(), {});
    plain.SetDouble(0, std::numeric_limits<double>::quiet_NaN());
    uint64_t plain_bits = 0;
    uint64_t bits = 0;
    const size_t width = static_cast<size_t>(DtypeBytes(data.dtype()));
    std::copy_n(plain.bytes(), width, reinterpret_cast<std::byte*>(&plain_bits));
    std::copy_n(data.bytes() + static_cast<size_t>(i) * width, width,
                reinterpret_cast<std::byte*>(&bits));
    return bits == plain_bits ? "nan" : fmt::format("nan({})", bits);
  }
  if (data.dtype() == Dtype::kF32) return FloatText(static_cast<float>(value));
  return FloatText(value);
}

std::string DimsText(ShapeRef dims) {
  std::string text;
  for (const Expr& dim : dims) text += (text.empty() ? "" : ", ") + dim.ToString();
  return "[" + text + "]";
}

struct AttributeText {
  std::string operator()(int64_t value) const { return fmt::to_string(value); }
  std::string operator()(double value) const { return FloatText(value); }
  std::string operator()(const std::string& value) const { return Quoted(value); }
  std::string operator()(Dtype value) const { return std::string(DtypeName(value)); }
  std::string operator()(ArrayRef<Expr> value) const { return "dims" + DimsText(value); }
  std::string operator()(ArrayRef<int64_t> value) const {
    return fmt::format("[{}]", fmt::join(value, ", "));
  }
  std::string operator()(ArrayRef<double> value) const {
    if (value.empty()) return "floats[]";
    std::vector<std::string> elements;
    for (const double element : value) elements.push_back(FloatText(element));
    return fmt::format("[{}]", fmt::join(elements, ", "));
  }
};

std::string PayloadText(const Node& node) {
  const TensorData& data = node.constant;
  if (!PrintsElements(node)) {
    return fmt::format(" payload {}", Quoted(node.constant_hash));
  }
  std::vector<std::string> elements;
  for (int64_t i = 0; i < data.element_count(); ++i) elements.push_back(ElementText(data, i));
  return fmt::format(" [{}]", fmt::join(elements, ", "));
}

// Trailing empty fields are left out: @ "/fc1/Gemm" "Gemm".
std::string OriginText(const Origin& origin) {
  const std::string* fields[] = {&origin.onnx_node, &origin.onnx_op, &origin.module_path,
                                 &origin.source_line};
  int count = 4;
  while (count > 1 && fields[count - 1]->empty()) --count;
  std::string text = " @";
  for (int i = 0; i < count; ++i) text += " " + Quoted(*fields[i]);
  return text;
}

std::string NameText(const Value* value) { return value == nullptr ? "_" : "%" + value->name; }

// The text of a node without its body.
std::string NodeLine(const Node& node) {
  std::vector<std::string> names;
  std::vector<std::string> types;
  for (const auto& result : node.results) {
    names.push_back("%" + result->name);
    types.push_back(result->type.ToString());
  }
  std::vector<std::string> operands;
  for (const Value* operand : node.operands) operands.push_back(NameText(operand));
  std::string text = fmt::format("{} = {}({})", fmt::join(names, ", "), GetOpDef(node.kind).text,
                                 fmt::join(operands, ", "));
  if (node.kind == OpKind::kConstant) text += PayloadText(node);
  if (!node.attributes.empty()) {
    std::vector<std::string> attributes;
    for (const auto& [key, value] : node.attributes) {
      attributes.push_back(fmt::format("{} = {}", key, std::visit(AttributeText(), value)));
    }
    text += fmt::format(" {{{}}}", fmt::join(attributes, ", "));
  }
  text += fmt::format(" : {}", fmt::join(types, ", "));
  std::string origins;
  for (const Origin& origin : node.provenance) origins += OriginText(origin);
  if (!origins.empty()) text += " " + origins;
  return text;
}

class Printer {
 public:
  std::string Take() { return std::move(text_); }

  // `inherited`: the symbols of the parent graph. The symbols of a body are only printed if they
  // differ.
  void PrintGraph(const Graph& graph, int indent, const std::vector<DimSymbol>* inherited) {
    text_ += std::string(static_cast<size_t>(indent), ' ');
    PrintHeader(graph, inherited);
    for (const auto& node : graph.nodes) PrintNodeAt(*node, indent + 2, graph);
    text_ += std::string(static_cast<size_t>(indent) + 2, ' ') + "return";
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      text_ += (i == 0 ? " " : ", ") + NameText(graph.outputs[i]);
      if (i < graph.output_names.size()) text_ += " " + Quoted(graph.output_names[i]);
    }
    PrintRunTimeSizes(graph);
    text_ += "\n" + std::string(static_cast<size_t>(indent), ' ') + "}\n";
  }

 private:
  void PrintRunTimeSizes(const Graph& graph) {
    if (graph.run_time_sizes.empty()) return;
    std::vector<std::string> sizes;
    for (const RunTimeSize& size : graph.run_time_sizes) {
      sizes.push_back(fmt::format("{} axis {}", size.output, size.axis));
    }
    text_ += fmt::format(" sizes({})", fmt::join(sizes, ", "));
  }

  void PrintHeader(const Graph& graph, const std::vector<DimSymbol>* inherited) {
    text_ += "graph @" + (IsIdentifier(graph.name) ? graph.name : Quoted(graph.name)) + "(";
    std::vector<std::string> inputs;
    size_t width = 0;
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      std::string input = "%" + graph.inputs[i]->name;
      if (i < graph.input_names.size()) input += " " + Quoted(graph.input_names[i]);
      inputs.push_back(input + ": " + graph.inputs[i]->type.ToString());
      width += inputs.back().size() + 2;
    }
    // Inputs that do not fit one line get a line each, under one another.
    const size_t before = text_.size() - (text_.find_last_of('\n') + 1);
    const std::string separator =
        before + width <= kColumns ? ", " : ",\n" + std::string(before, ' ');
    text_ += fmt::format("{})", fmt::join(inputs, separator));

    if (inherited == nullptr ? !graph.symbols.empty() : graph.symbols != *inherited) {
      std::vector<std::string> symbols;
      for (const DimSymbol& symbol : graph.symbols) {
        symbols.push_back(fmt::format("{} in {}..{}", symbol.name, symbol.low, symbol.high));
      }
      text_ += fmt::format(" symbols({})", fmt::join(symbols, ", "));
    }
    if (!graph.metadata.empty()) {
      std::vector<std::string> entries;
      for (const auto& [key, value] : graph.metadata) {
        entries.push_back(fmt::format("{} = {}", IsIdentifier(key) ? key : Quoted(key),
                                      Quoted(value)));
      }
      text_ += fmt::format(" metadata({})", fmt::join(entries, ", "));
    }
    text_ += " {\n";
  }

  void PrintNodeAt(const Node& node, int indent, const Graph& graph) {
    text_ += std::string(static_cast<size_t>(indent), ' ') + NodeLine(node);
    if (node.body != nullptr) {
      text_ += " {\n";
      PrintGraph(*node.body, indent + 2, &graph.symbols);
      text_ += std::string(static_cast<size_t>(indent), ' ') + "}";
    }
    text_ += "\n";
  }

  std::string text_;
};

}  // namespace

bool PrintsElements(const Node& constant) {
  const TensorData& data = constant.constant;
  return data.bytes() != nullptr && data.element_count() <= kInlineElements;
}

std::string Print(const Graph& graph) {
  Printer printer;
  printer.PrintGraph(graph, 0, nullptr);
  return printer.Take();
}

std::string PrintNode(const Node& node) { return NodeLine(node); }

bool Equal(const Graph& a, const Graph& b) { return Print(a) == Print(b); }

}  // namespace fusec
