#include "passes/per_request.h"

#include <algorithm>
#include <optional>

#include "compiler/support/glob.h"
#include "compiler/support/nearest_name.h"
#include "compiler/support/terminal.h"

namespace fusec {

namespace {

tl::unexpected<Error> Usage(const std::string& message) {
  return Fail(ErrorKind::kUsage, "--per-request: " + message);
}

std::string InputText(const Graph& graph, size_t i) {
  return "input \"" + graph.InputName(i) + "\" " + graph.inputs[i]->type.ToString();
}

Result<std::vector<size_t>> NamedInputs(const Graph& graph, const PerRequest& per_request) {
  std::vector<std::string> names;
  for (size_t i = 0; i < graph.inputs.size(); ++i) names.push_back(graph.InputName(i));
  for (const std::string& pattern : per_request.inputs) {
    const auto matches = [&](const std::string& name) { return MatchesGlob(pattern, name); };
    if (std::any_of(names.begin(), names.end(), matches)) continue;
    return Usage("no input is called \"" + pattern + "\"" + DidYouMean(pattern, names) +
                 "; there are " + Join(names, ", "));
  }
  std::vector<size_t> inputs;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (IsPerRequest(names[i], per_request)) inputs.push_back(i);
  }
  return inputs;
}

// The batch: the dim with which all these inputs begin. It is an error if another dim of them
// depends on it.
Result<std::string> BatchOf(const Graph& graph, ArrayRef<size_t> inputs) {
  std::optional<std::string> batch;
  for (const size_t i : inputs) {
    const Shape& shape = graph.inputs[i]->type.shape;
    const auto first = shape.empty() ? std::nullopt : shape[0].AsSymbol();
    if (!first || (batch && *first != *batch)) {
      return Usage(
          InputText(graph, i) + " does not begin with " +
          (batch ? "the batch \"" + *batch + "\" of input \"" + graph.InputName(inputs[0]) + "\""
                 : std::string("a batch, a dim of any size")));
    }
    batch = first;
    std::vector<std::string> others;
    for (size_t axis = 1; axis < shape.size(); ++axis) shape[axis].CollectSymbols(others);
    if (std::find(others.begin(), others.end(), *batch) != others.end())
      return Usage(InputText(graph, i) + " has the batch in two of its dims");
  }
  return *batch;
}

// Whether the shape of an input that is not per request gives the batch of a call.
bool IsTold(const Graph& graph, ArrayRef<size_t> per_request, const std::string& batch) {
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (std::find(per_request.begin(), per_request.end(), i) != per_request.end()) continue;
    for (const Expr& dim : graph.inputs[i]->type.shape) {
      if (dim.AsSymbol() == batch) return true;
    }
  }
  return false;
}

Result<Value*> AddMap(Graph& graph, const std::string& batch, const DimSymbol& requests) {
  if (FindRequestMap(graph)) {
    return Usage(std::string("the model has an input \"") + kRequestMap +
                 "\" already, which --request-map would add");
  }
  for (const DimSymbol& symbol : graph.symbols) {
    if (symbol.name == requests.name)
      return Usage("the model has a dim \"" + requests.name +
                   "\" already, which --request-map would add");
  }
  graph.symbols.push_back(requests);
  if (!graph.input_names.empty()) graph.input_names.push_back(kRequestMap);
  return graph.AddInput(graph.UniqueName(kRequestMap), {Dtype::kI64, {Expr::Symbol(batch)}});
}

}  // namespace

Value* FindRequestMap(const Graph& graph) {
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (graph.InputName(i) == kRequestMap) return graph.inputs[i].get();
  }
  return nullptr;
}

bool IsPerRequest(const std::string& input, const PerRequest& per_request) {
  if (per_request.is_mapped && input == kRequestMap) return false;
  return std::any_of(per_request.inputs.begin(), per_request.inputs.end(),
                     [&](const std::string& pattern) { return MatchesGlob(pattern, input); });
}

Result<void> DeclarePerRequest(Graph& graph, const PerRequest& per_request,
                               const DimSymbol& requests) {
  if (per_request.inputs.empty()) return {};
  FUSEC_ASSIGN(const std::vector<size_t> inputs, NamedInputs(graph, per_request));
  FUSEC_ASSIGN(const std::string batch, BatchOf(graph, inputs));
  if (!per_request.is_mapped && !IsTold(graph, inputs, batch)) {
    return Usage("no other input has the dim \"" + batch +
                 "\", so that nothing would tell how many items a call has");
  }
  Value* map = nullptr;
  if (per_request.is_mapped) {
    FUSEC_ASSIGN(map, AddMap(graph, batch, requests));
  }
  Builder builder(graph, 0);
  for (const size_t i : inputs) {
    Value* input = graph.inputs[i].get();
    const Shape replicated = input->type.shape;
    const std::string name = input->name + "_of_item";
    input->type.shape[0] = map ? Expr::Symbol(requests.name) : Expr(1);
    Value* rows = map ? builder.Make(OpKind::kGather, {input, map}, {{"axis", int64_t{0}}}, name)
                      : builder.Make(OpKind::kExpand, {input}, {{"shape", replicated}}, name);
    graph.ReplaceAllUses(input, rows);
    rows->producer->operands[0] = input;
  }
  return {};
}

}  // namespace fusec
