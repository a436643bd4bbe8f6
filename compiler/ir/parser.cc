#include <fmt/format.h>

#include <climits>

#include "compiler/ir/graph.h"
#include "compiler/ir/literals.h"
#include "compiler/ir/op_def.h"

namespace fusec {
namespace {

// What follows `constant()` in the text: its elements, or the hash of a payload that is stored
// elsewhere.
struct ConstantText {
  std::optional<std::vector<Element>> elements;
  std::string hash;
};

class Parser {
 public:
  Parser(std::string_view text, const PayloadLookup& payloads)
      : lexer_(text), payloads_(payloads) {}

  Result<std::unique_ptr<Graph>> Run() {
    FUSEC_TRY(lexer_.Advance());
    FUSEC_ASSIGN(std::unique_ptr<Graph> graph, ParseGraph(nullptr));
    if (lexer_.current().kind != Token::Kind::kEnd) return lexer_.Expected("the end of the text");
    return graph;
  }

 private:
  using Names = std::map<std::string, Value*>;

  // graph @name(inputs) symbols(...) metadata(...) { nodes return outputs }
  Result<std::unique_ptr<Graph>> ParseGraph(const Graph* parent) {
    auto graph = std::make_unique<Graph>();
    Names names;
    FUSEC_TRY(Expect(lexer_, "graph"));
    FUSEC_TRY(Expect(lexer_, "@"));
    FUSEC_ASSIGN(graph->name, WordOrString("the graph's name"));
    FUSEC_TRY(ParseInputs(*graph, names));
    FUSEC_ASSIGN(const bool has_symbols, Accept(lexer_, "symbols"));
    if (has_symbols)
      FUSEC_TRY(ParseSymbols(*graph));
    else if (parent != nullptr)
      graph->symbols = parent->symbols;
    FUSEC_ASSIGN(const bool has_metadata, Accept(lexer_, "metadata"));
    if (has_metadata) FUSEC_TRY(ParseMetadata(*graph));
    FUSEC_TRY(Expect(lexer_, "{"));
    while (lexer_.At("%")) FUSEC_TRY(ParseNode(*graph, names, parent != nullptr));
    if (!lexer_.At("return")) return lexer_.Expected("a node or 'return'");
    FUSEC_TRY(lexer_.Advance());
    FUSEC_TRY(ParseOutputs(*graph, names));
    FUSEC_TRY(Expect(lexer_, "}"));
    return graph;
  }

  Result<std::string> WordOrString(const std::string& what) {
    if (lexer_.current().kind == Token::Kind::kString) return ExpectString(lexer_, what);
    return ExpectWord(lexer_, what);
  }

  Result<void> ParseInputs(Graph& graph, Names& names) {
    FUSEC_TRY(Expect(lexer_, "("));
    while (!lexer_.At(")")) {
      FUSEC_ASSIGN(std::unique_ptr<Value> input, DefineValue(names));
      if (lexer_.current().kind == Token::Kind::kString) {
        FUSEC_ASSIGN(std::string user_name, ExpectString(lexer_, "the input's name"));
        graph.input_names.push_back(std::move(user_name));
      }
      FUSEC_TRY(Expect(lexer_, ":"));
      FUSEC_ASSIGN(input->type, ParseType(lexer_));
      input->result_index = static_cast<int>(graph.inputs.size());
      graph.inputs.push_back(std::move(input));
      if (lexer_.At(")")) break;
      FUSEC_TRY(Expect(lexer_, ","));
    }
    if (!graph.input_names.empty() && graph.input_names.size() != graph.inputs.size()) {
      return lexer_.FailHere(fmt::format("{} of {} inputs have a quoted name, expected all or none",
                                         graph.input_names.size(), graph.inputs.size()));
    }
    return lexer_.Advance();
  }

  Result<void> ParseSymbols(Graph& graph) {
    FUSEC_TRY(Expect(lexer_, "("));
    while (!lexer_.At(")")) {
      DimSymbol symbol;
      FUSEC_ASSIGN(symbol.name, ExpectWord(lexer_, "a symbol"));
      FUSEC_TRY(Expect(lexer_, "in"));
      FUSEC_ASSIGN(symbol.low, ExpectInt(lexer_, "the symbol's lowest value"));
      FUSEC_TRY(Expect(lexer_, ".."));
      FUSEC_ASSIGN(symbol.high, ExpectInt(lexer_, "the symbol's highest value"));
      graph.symbols.push_back(std::move(symbol));
      if (lexer_.At(")")) break;
      FUSEC_TRY(Expect(lexer_, ","));
    }
    return lexer_.Advance();
  }

  Result<void> ParseMetadata(Graph& graph) {
    FUSEC_TRY(Expect(lexer_, "("));
    while (!lexer_.At(")")) {
      FUSEC_ASSIGN(const std::string key, WordOrString("a key"));
      FUSEC_TRY(Expect(lexer_, "="));
      FUSEC_ASSIGN(graph.metadata[key], ExpectString(lexer_, "a quoted value"));
      if (lexer_.At(")")) break;
      FUSEC_TRY(Expect(lexer_, ","));
    }
    return lexer_.Advance();
  }

  // %a, %b = op(%x, _) payload {attributes} : types @ origin { body }
  Result<void> ParseNode(Graph& graph, Names& names, bool is_body) {
    auto node = std::make_unique<Node>();
    Names results;  // a node cannot use its own results
    bool more = true;
    while (more) {
      FUSEC_ASSIGN(std::unique_ptr<Value> result, DefineValue(results, &names));
      result->producer = node.get();
      result->result_index = static_cast<int>(node->results.size());
      node->results.push_back(std::move(result));
      FUSEC_ASSIGN(more, Accept(lexer_, ","));
    }
    FUSEC_TRY(Expect(lexer_, "="));
    const OpDef* def = nullptr;
    if (lexer_.current().kind == Token::Kind::kWord) def = FindOpByText(lexer_.current().text);
    if (def == nullptr) return lexer_.Expected("an op");
    if (def->kind == OpKind::kRegion && is_body) return lexer_.FailHere("a region inside a region");
    node->kind = def->kind;
    FUSEC_TRY(lexer_.Advance());
    FUSEC_TRY(ParseOperands(*node, names));
    ConstantText constant;
    if (node->kind == OpKind::kConstant) {
      FUSEC_ASSIGN(constant, ParseConstantText());
    }
    if (lexer_.At("{")) FUSEC_TRY(ParseAttributes(*node));
    FUSEC_TRY(Expect(lexer_, ":"));
    for (size_t i = 0; i < node->results.size(); ++i) {
      if (i != 0) FUSEC_TRY(Expect(lexer_, ","));
      FUSEC_ASSIGN(node->results[i]->type, ParseType(lexer_));
    }
    if (node->kind == OpKind::kConstant) FUSEC_TRY(FillConstant(*node, constant));
    while (lexer_.At("@")) FUSEC_TRY(ParseOrigin(*node));
    if (node->kind == OpKind::kRegion) {
      FUSEC_TRY(Expect(lexer_, "{"));
      FUSEC_ASSIGN(node->body, ParseGraph(&graph));
      FUSEC_TRY(Expect(lexer_, "}"));
    }
    names.merge(results);
    graph.nodes.push_back(std::move(node));
    return {};
  }

  Result<void> ParseOperands(Node& node, const Names& names) {
    FUSEC_TRY(Expect(lexer_, "("));
    while (!lexer_.At(")")) {
      FUSEC_ASSIGN(const bool absent, Accept(lexer_, "_"));
      node.operands.push_back(nullptr);
      if (!absent) {
        FUSEC_ASSIGN(node.operands.back(), UseValue(names));
      }
      if (lexer_.At(")")) break;
      FUSEC_TRY(Expect(lexer_, ","));
    }
    return lexer_.Advance();
  }

  Result<void> ParseAttributes(Node& node) {
    FUSEC_TRY(Expect(lexer_, "{"));
    while (!lexer_.At("}")) {
      if (lexer_.current().kind == Token::Kind::kWord &&
          node.Has(std::string(lexer_.current().text))) {
        return lexer_.FailHere(fmt::format("attribute '{}' is given twice", lexer_.current().text));
      }
      FUSEC_ASSIGN(const std::string key, ExpectWord(lexer_, "an attribute's name"));
      FUSEC_TRY(Expect(lexer_, "="));
      FUSEC_ASSIGN(node.attributes[key], ParseAttribute(lexer_));
      if (lexer_.At("}")) break;
      FUSEC_TRY(Expect(lexer_, ","));
    }
    return lexer_.Advance();
  }

  Result<ConstantText> ParseConstantText() {
    ConstantText text;
    FUSEC_ASSIGN(const bool has_payload, Accept(lexer_, "payload"));
    if (has_payload) {
      FUSEC_ASSIGN(text.hash, ExpectString(lexer_, "the payload's hash"));
    } else if (lexer_.At("[")) {
      FUSEC_ASSIGN(text.elements, ParseElements(lexer_));
    } else {
      return lexer_.Expected("'payload' or the constant's elements in [ ]");
    }
    return text;
  }

  Result<void> FillConstant(Node& node, const ConstantText& text) {
    const TensorType& type = node.result()->type;
    if (text.elements) {
      Result<TensorData> data = MakeConstant(type, *text.elements);
      if (!data) return lexer_.FailHere(data.error().message);
      node.constant = *std::move(data);
      node.constant_hash = node.constant.Hash();
      return {};
    }
    node.constant_hash = text.hash;
    if (payloads_ == nullptr) return {};
    if (std::optional<TensorData> data = payloads_(text.hash)) {
      if (data->dtype() != type.dtype || StaticShape(type.shape) != data->dims()) {
        return lexer_.FailHere(fmt::format("the payload of %{} is {}[{}], expected {}",
                                           node.result()->name, DtypeName(data->dtype()),
                                           fmt::join(data->dims(), ", "), type.ToString()));
      }
      node.constant = *std::move(data);
    }
    return {};
  }

  Result<void> ParseOrigin(Node& node) {
    FUSEC_TRY(Expect(lexer_, "@"));
    Origin origin;
    std::string* const fields[] = {&origin.onnx_node, &origin.onnx_op, &origin.module_path,
                                   &origin.source_line};
    if (lexer_.current().kind != Token::Kind::kString) {
      return lexer_.Expected("the quoted name of an ONNX node");
    }
    for (std::string* field : fields) {
      if (lexer_.current().kind != Token::Kind::kString) break;
      FUSEC_ASSIGN(*field, ExpectString(lexer_, "a string"));
    }
    node.provenance.push_back(std::move(origin));
    return {};
  }

  Result<int> ExpectPlace(const std::string& what) {
    const Lexer here = lexer_;
    FUSEC_ASSIGN(const int64_t number, ExpectInt(lexer_, what));
    if (number < 0 || number > INT_MAX) return here.Expected(what);
    return static_cast<int>(number);
  }

  // sizes(0 axis 1, ...): run-time sizes, of axis 1 of output 0 and so on
  Result<void> ParseRunTimeSizes(Graph& graph) {
    FUSEC_TRY(Expect(lexer_, "("));
    while (true) {
      FUSEC_ASSIGN(const int output, ExpectPlace("the number of an output"));
      FUSEC_TRY(Expect(lexer_, "axis"));
      FUSEC_ASSIGN(const int axis, ExpectPlace("an axis of the output"));
      graph.run_time_sizes.push_back({output, axis});
      if (lexer_.At(")")) break;
      FUSEC_TRY(Expect(lexer_, ","));
    }
    return lexer_.Advance();
  }

  Result<void> ParseOutputs(Graph& graph, const Names& names) {
    while (lexer_.At("%")) {
      FUSEC_ASSIGN(Value * output, UseValue(names));
      graph.outputs.push_back(output);
      if (lexer_.current().kind == Token::Kind::kString) {
        FUSEC_ASSIGN(std::string user_name, ExpectString(lexer_, "the output's name"));
        graph.output_names.push_back(std::move(user_name));
      }
      if (lexer_.At("}") || lexer_.At("sizes")) break;
      FUSEC_TRY(Expect(lexer_, ","));
      if (!lexer_.At("%")) return lexer_.Expected("'%'");
    }
    FUSEC_ASSIGN(const bool has_sizes, Accept(lexer_, "sizes"));
    if (has_sizes) FUSEC_TRY(ParseRunTimeSizes(graph));
    if (!graph.output_names.empty() && graph.output_names.size() != graph.outputs.size()) {
      return lexer_.FailHere(
          fmt::format("{} of {} outputs have a quoted name, expected all or none",
                      graph.output_names.size(), graph.outputs.size()));
    }
    return {};
  }

  // Creates a value. Its name must be in neither `names` nor `others`, and is added to `names`.
  Result<std::unique_ptr<Value>> DefineValue(Names& names, const Names* others = nullptr) {
    FUSEC_TRY(Expect(lexer_, "%"));
    auto value = std::make_unique<Value>();
    const std::string name(lexer_.current().text);
    if (names.count(name) != 0 || (others != nullptr && others->count(name) != 0)) {
      return lexer_.FailHere(fmt::format("%{} is defined twice", name));
    }
    FUSEC_ASSIGN(value->name, ExpectWord(lexer_, "a value's name"));
    names[name] = value.get();
    return value;
  }

  Result<Value*> UseValue(const Names& names) {
    if (!lexer_.At("%")) return lexer_.Expected("'%' or '_'");
    FUSEC_TRY(lexer_.Advance());
    const auto found = names.find(std::string(lexer_.current().text));
    if (found == names.end() && lexer_.current().kind == Token::Kind::kWord) {
      return lexer_.FailHere(fmt::format("%{} is not defined", lexer_.current().text));
    }
    FUSEC_TRY(ExpectWord(lexer_, "a value's name"));
    return found->second;
  }

  Lexer lexer_;
  const PayloadLookup& payloads_;
};

}  // namespace

Result<std::unique_ptr<Graph>> Parse(std::string_view text, const PayloadLookup& payloads) {
  return Parser(text, payloads).Run();
}

}  // namespace fusec
