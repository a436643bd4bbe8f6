#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "compiler/ir/graph.h"
#include "compiler/ir/infer.h"
#include "compiler/ir/lexer.h"
#include "compiler/ir/op_def.h"

namespace fusec {
namespace {

class Verifier {
 public:
  Verifier(const Graph& graph, const Graph* parent)
      : graph_(graph), parent_(parent), ranges_(graph.SymbolRanges()) {}

  Result<void> Run() {
    FUSEC_TRY(CheckSymbols());
    for (const auto& input : graph_.inputs) {
      place_ = "input %" + input->name;
      FUSEC_TRY(Define(*input));
      if (input->producer != nullptr) return Bad("has a producer, expected none");
    }
    for (const auto& node : graph_.nodes) {
      place_ = PrintNode(*node);
      FUSEC_TRY(CheckNode(*node));
    }
    place_ = "return";
    for (const Value* output : graph_.outputs) FUSEC_TRY(CheckUse(output));
    FUSEC_TRY(CheckRunTimeSizes());
    FUSEC_TRY(CheckNames("input", graph_.inputs.size(), graph_.input_names.size()));
    return CheckNames("output", graph_.outputs.size(), graph_.output_names.size());
  }

 private:
  tl::unexpected<Error> Bad(const std::string& message) const {
    return ModelError(fmt::format("graph @{}: {}: {}", graph_.name, place_, message));
  }

  Result<void> CheckRunTimeSizes() {
    if (graph_.run_time_sizes.empty()) return {};
    const auto count = static_cast<int64_t>(graph_.run_time_sizes.size());
    const TensorType wanted = {Dtype::kI64, {Expr(count)}};
    if (graph_.outputs.empty() || graph_.outputs.back()->type != wanted) {
      return Bad("the last output holds run-time sizes, expected " + wanted.ToString());
    }
    for (const auto& [output, axis] : graph_.run_time_sizes) {
      const bool is_output = output >= 0 && output < static_cast<int>(graph_.model_output_count());
      if (is_output && axis >= 0 && axis < graph_.outputs[output]->type.rank()) continue;
      return Bad(fmt::format("there is no output {} with an axis {}", output, axis));
    }
    return {};
  }

  Result<void> CheckSymbols() {
    for (const DimSymbol& symbol : graph_.symbols) {
      place_ = "symbol " + symbol.name;
      if (!IsIdentifier(symbol.name)) return Bad("is no identifier");
      if (!symbols_.insert(symbol.name).second) return Bad("is declared twice");
      if (symbol.low < 0 || symbol.low > symbol.high) {
        return Bad(
            fmt::format("ranges over {}..{}, expected a range of sizes", symbol.low, symbol.high));
      }
      smallest_[symbol.name] = std::max<int64_t>(symbol.low, 1);
    }
    place_ = "symbols";
    if (parent_ == nullptr) return {};
    for (const DimSymbol& symbol : graph_.symbols) {
      if (std::find(parent_->symbols.begin(), parent_->symbols.end(), symbol) ==
          parent_->symbols.end()) {
        return Bad(fmt::format("{} is not declared so by the graph around", symbol.name));
      }
    }
    return {};
  }

  Result<void> CheckNames(const char* what, size_t values, size_t names) const {
    if (names == 0 || names == values) return {};
    return ModelError(fmt::format("graph @{}: {} {}s have {} names, expected one each or none",
                                  graph_.name, values, what, names));
  }

  Result<void> Define(const Value& value) {
    if (!IsIdentifier(value.name)) return Bad(fmt::format("\"{}\" is no identifier", value.name));
    if (!names_.insert(value.name).second) {
      return Bad(fmt::format("%{} is defined twice", value.name));
    }
    defined_.insert(&value);
    for (const Expr& dim : value.type.shape) {
      FUSEC_TRY(CheckDim(dim, "%" + value.name));
      if (ranges_.IntervalOf(dim).high < 0) {  // for all sizes
        return Bad(fmt::format("%{} has a dim of {}", value.name, dim.ToString()));
      }
    }
    return CheckSize(value);
  }

  // An error if the value has more than 2^62 bytes even for the smallest sizes, because positions
  // in it could overflow.
  Result<void> CheckSize(const Value& value) const {
    constexpr int64_t kMostBytes = int64_t{1} << 62;
    __int128 bytes = DtypeBytes(value.type.dtype);
    for (const Expr& dim : value.type.shape) {
      const Result<int64_t> size = dim.Evaluate(smallest_);
      bytes *= size ? std::max<int64_t>(*size, 1) : kMostBytes + 1;
      if (bytes <= kMostBytes) continue;
      return Bad(fmt::format("%{} is {}, more bytes than 64 bits count", value.name,
                             value.type.ToString()));
    }
    return {};
  }

  // An error if the dim uses a symbol that the graph does not declare.
  Result<void> CheckDim(const Expr& dim, const std::string& owner) const {
    std::vector<std::string> used;
    dim.CollectSymbols(used);
    for (const std::string& symbol : used) {
      if (symbols_.count(symbol) != 0) continue;
      return Bad(fmt::format("dim {} of {} uses \"{}\", which the graph does not declare",
                             dim.ToString(), owner, symbol));
    }
    return {};
  }

  Result<void> CheckAttributeDims(const Node& node) const {
    for (const auto& [name, attribute] : node.attributes) {
      const auto* dims = std::get_if<Exprs>(&attribute);
      if (dims == nullptr) continue;
      for (const Expr& dim : *dims) FUSEC_TRY(CheckDim(dim, name));
    }
    return {};
  }

  Result<void> CheckUse(const Value* value) const {
    if (value == nullptr) return Bad("a value is missing");
    if (defined_.count(value) != 0) return {};
    return Bad(fmt::format("%{} is used before it is defined", value->name));
  }

  Result<void> CheckNode(const Node& node) {
    for (const Value* operand : node.operands) {
      if (operand != nullptr) FUSEC_TRY(CheckUse(operand));
    }
    FUSEC_TRY(CheckAttributeDims(node));
    std::vector<TensorType> expected;
    if (node.kind == OpKind::kConstant) {
      FUSEC_ASSIGN(expected, ConstantTypes(node));
    } else if (node.kind == OpKind::kRegion) {
      FUSEC_ASSIGN(expected, RegionTypes(node));
    } else {
      Result<std::vector<TensorType>> types =
          InferTypes(node.kind, node.operands, node.attributes, ranges_);
      if (!types) return Bad(types.error().message);
      expected = *std::move(types);
    }
    if (node.kind != OpKind::kRegion && node.body != nullptr) {
      return Bad("only a region has a body");
    }
    if (node.results.size() != expected.size()) {
      return Bad(fmt::format("{} results, expected {}", node.results.size(), expected.size()));
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      const Value& result = *node.results[i];
      if (result.producer != &node || result.result_index != static_cast<int>(i)) {
        return Bad(fmt::format("%{} does not point back to its node", result.name));
      }
      FUSEC_TRY(Define(result));
      if (!(result.type == expected[i])) {
        return Bad(fmt::format("%{} is {}, expected {}", result.name, result.type.ToString(),
                               expected[i].ToString()));
      }
    }
    return {};
  }

  Result<std::vector<TensorType>> ConstantTypes(const Node& node) const {
    if (!node.operands.empty()) return Bad("a constant has no operands");
    if (auto attributes = CheckAttributes(node.kind, node.attributes); !attributes)
      return Bad(attributes.error().message);
    if (node.constant_hash.empty()) return Bad("a constant needs its payload or hash");
    if (node.constant.bytes() == nullptr) {  // not loaded: only the type is known
      std::vector<TensorType> types;
      for (const auto& result : node.results) types.push_back(result->type);
      return types;
    }
    TensorType type{node.constant.dtype(), {}};
    for (const int64_t dim : node.constant.dims()) type.shape.emplace_back(dim);
    return std::vector<TensorType>{type};
  }

  Result<std::vector<TensorType>> RegionTypes(const Node& node) const {
    if (node.body == nullptr) return Bad("a region needs a body");
    if (auto attributes = CheckAttributes(node.kind, node.attributes); !attributes)
      return Bad(attributes.error().message);
    const Graph& body = *node.body;
    if (body.inputs.size() != node.operands.size()) {
      return Bad(fmt::format("{} operands, but the body has {} inputs", node.operands.size(),
                             body.inputs.size()));
    }
    for (size_t i = 0; i < body.inputs.size(); ++i) {
      if (node.operands[i] == nullptr) return Bad("a region's operands cannot be absent");
      if (!(node.operands[i]->type == body.inputs[i]->type)) {
        return Bad(fmt::format("operand %{} is {}, but the body's %{} is {}",
                               node.operands[i]->name, node.operands[i]->type.ToString(),
                               body.inputs[i]->name, body.inputs[i]->type.ToString()));
      }
    }
    FUSEC_TRY(Verifier(body, &graph_).Run());
    std::vector<TensorType> types;
    for (const Value* output : body.outputs) types.push_back(output->type);
    return types;
  }

  const Graph& graph_;
  const Graph* parent_;
  const Ranges ranges_;
  std::string place_;  // the part of the graph being looked at, for messages
  std::set<std::string> symbols_;
  std::map<std::string, int64_t> smallest_;  // lower bounds of the symbols, at least 1
  std::set<std::string> names_;
  ValueSet defined_;
};

}  // namespace

Result<void> Verify(const Graph& graph) { return Verifier(graph, nullptr).Run(); }

}  // namespace fusec
