#include "compiler/import/import.h"

#include <onnx/inliner/inliner.h>

#include <algorithm>
#include <exception>

#include "compiler/import/graph_import.h"
#include "compiler/import/inlined_size.h"
#include "compiler/import/model_inputs.h"
#include "compiler/import/names.h"
#include "compiler/import/onnx_reader.h"

namespace fusec {
namespace {

// Replaces calls of the model's own functions by their bodies. The inliner leaves out functions
// written for another opset; those are named here, since their calls will be reported as
// unsupported ops.
Result<void> InlineFunctions(onnx::ModelProto& model, const std::string& path) {
  constexpr int64_t kMostNodes = 1'000'000;
  if (model.functions_size() == 0) return {};
  if (InlinedNodes(model, kMostNodes) == kMostNodes) {
    return ModelError(path + ": its functions make a graph of " + std::to_string(kMostNodes) +
                      " nodes or more, or call each other 1000 deep");
  }
  try {
    onnx::inliner::InlineLocalFunctions(model, /*convert_version=*/false);
  } catch (const std::exception& error) {
    return ModelError(path + ": the model's functions cannot be inlined: " + OneLine(error.what()));
  }
  return {};
}

void NoteRefusedFunctions(const onnx::ModelProto& model, ImportState& state) {
  for (const onnx::FunctionProto& function : model.functions()) {
    for (const auto& import : function.opset_import()) {
      const auto ours = state.opsets.find(import.domain());
      if (ours == state.opsets.end() || ours->second == import.version()) continue;
      state.problems.Add("function " + function.domain() + "." + function.name() +
                         " is written for opset " + std::to_string(import.version()) + " of " +
                         DomainName(import.domain()) + ", the model for " +
                         std::to_string(ours->second));
    }
  }
}

void SetMetadata(const onnx::ModelProto& model, const std::string& path, ImportState& state) {
  Graph& graph = state.graph;
  graph.name = Identifier(model.graph().name());
  graph.metadata["file"] = path.substr(path.find_last_of('/') + 1);
  graph.metadata["ir_version"] = std::to_string(model.ir_version());
  graph.metadata["opset"] = std::to_string(state.opsets.at(""));
  const std::string& version = model.producer_version();
  graph.metadata["producer"] =
      PrintableLine(model.producer_name() + (version.empty() ? "" : " ") + version);
}

void AddInputs(const ModelInputs& inputs, ImportState& state, Scope& scope) {
  state.graph.symbols = inputs.symbols;
  state.ranges = state.graph.SymbolRanges();
  for (const ModelInput& input : inputs.inputs) {
    const std::string name = Identifier(input.name);
    if (input.frozen != nullptr) {
      scope.Define(input.name, state.builder.Constant(*input.frozen, name));
    } else {
      scope.Define(input.name, state.graph.AddInput(name, input.type));
      state.graph.input_names.push_back(Printable(input.name));
    }
  }
}

// Tells where the file's own claim about an output contradicts what follows from the nodes;
// exporters trace with example sizes and sometimes leave those behind.
void CompareDeclaration(const onnx::ValueInfoProto& output, const TensorType& inferred,
                        ImportState& state) {
  const auto& declared = output.type().tensor_type();
  const std::string place = "output \"" + output.name() + "\" is declared ";
  const std::string end = "; the declaration is ignored";
  const auto dtype = DtypeFromOnnx(declared.elem_type());
  if (dtype != inferred.dtype) {
    state.warnings.push_back(place + OnnxTypeName(declared.elem_type()) + " but is " +
                             std::string(DtypeName(inferred.dtype)) + end);
  }
  if (!declared.has_shape()) return;
  const auto& dims = declared.shape().dim();
  bool contradicts = dims.size() != inferred.rank();
  std::string declared_text, inferred_text;
  for (int i = 0; i < dims.size(); ++i) {
    const bool fixed = dims[i].has_dim_value();
    if (fixed && !contradicts) contradicts = !inferred.shape[i].IsConstant(dims[i].dim_value());
    const std::string name = dims[i].dim_param().empty() ? "?" : dims[i].dim_param();
    declared_text += (i > 0 ? ", " : "") + (fixed ? std::to_string(dims[i].dim_value()) : name);
  }
  for (int i = 0; i < inferred.rank(); ++i) {
    inferred_text += (i > 0 ? ", " : "") + inferred.shape[i].ToString();
  }
  if (contradicts) {
    state.warnings.push_back(place + "[" + declared_text + "] but is [" + inferred_text + "]" +
                             end);
  }
}

void AddOutputs(const onnx::GraphProto& graph, ImportState& state, const Scope& scope) {
  std::map<std::string, int> seen;
  for (const onnx::ValueInfoProto& output : graph.output()) {
    if (++seen[output.name()] == 2) {
      state.problems.Add("output \"" + output.name() + "\" is declared twice");
    }
    Value* value = scope.Get(output.name());
    if (value == nullptr) continue;  // its node failed, or nothing makes it: reported already
    state.graph.outputs.push_back(value);
    state.graph.output_names.push_back(Printable(output.name()));
    CompareDeclaration(output, value->type, state);
  }
  if (graph.output_size() == 0) state.problems.Add("the graph has no outputs");
}

// Whether a tensor surely has more than 2^48 bytes, which no machine holds. Sizes that overflow 64
// bits are among these.
bool IsTooLarge(const TensorType& type, const Ranges& ranges) {
  constexpr int64_t kMostBytes = int64_t{1} << 48;
  int64_t bytes = DtypeBytes(type.dtype);
  for (const Expr& dim : type.shape) {
    const int64_t least = std::max<int64_t>(ranges.IntervalOf(dim).low, 1);
    if (__builtin_mul_overflow(bytes, least, &bytes) || bytes > kMostBytes) return true;
  }
  return false;
}

// Reports the first tensor that is too large; others mostly follow from it.
void CheckSizes(const Graph& graph, Problems& problems) {
  const Ranges ranges = graph.SymbolRanges();
  std::vector<const Value*> values;
  for (const auto& input : graph.inputs) values.push_back(input.get());
  for (const auto& node : graph.nodes) {
    for (const auto& result : node->results) values.push_back(result.get());
  }
  const auto large = std::find_if(values.begin(), values.end(), [&](const Value* value) {
    return IsTooLarge(value->type, ranges);
  });
  if (large == values.end()) return;
  problems.Add("tensor \"" + (*large)->name + "\" is " + (*large)->type.ToString() +
               ", expected at most 2^48 bytes");
}

Payloads OwnedPayloads(const OnnxFile& onnx) {
  Payloads payloads;
  for (const auto& [index, bytes] : onnx.payloads) payloads[index] = FilePayload{onnx.file, bytes};
  return payloads;
}

// Calls symbols what --dim calls them. Of two that are one, the one that the inputs have first
// stays.
void NameByFlags(const ModelInputs& inputs, FittingDim& fitting) {
  for (const DimSymbol& symbol : inputs.symbols) {
    if (symbol.name == fitting.same_as) break;
    if (symbol.name == fitting.symbol && !fitting.same_as.empty()) {
      std::swap(fitting.symbol, fitting.same_as);
      break;
    }
  }
  for (std::string* name : {&fitting.symbol, &fitting.same_as}) {
    const auto flag = inputs.flags.find(*name);
    if (flag != inputs.flags.end()) *name = flag->second;
  }
}

// One attempt; `size_problem` gets the first problem that other sizes of a dim would solve.
Result<ImportedModel> ImportWith(const std::string& path, const ImportOptions& options,
                                 std::optional<Problems::SizeProblem>& size_problem) {
  FUSEC_ASSIGN(OnnxFile onnx, ReadOnnx(path));
  FUSEC_TRY(InlineFunctions(onnx.model, path));

  auto graph = std::make_unique<Graph>();
  ImportState state(path, *graph);
  for (const auto& import : onnx.model.opset_import()) {
    state.opsets[import.domain()] = import.version();
  }
  SetMetadata(onnx.model, path, state);

  FUSEC_ASSIGN(const ModelInputs inputs,
               ReadInputs(onnx.model, options, state.problems, state.warnings));
  // Nodes that read an input of an unsupported type would only repeat what is wrong with it.
  Scope scope;
  for (const auto& input : onnx.model.graph().input()) scope.Define(input.name(), nullptr);
  AddInputs(inputs, state, scope);
  ImportInitializers(*onnx.model.mutable_graph(), OwnedPayloads(onnx), state, scope);
  ImportNodes(*onnx.model.mutable_graph(), state, scope);
  AddOutputs(onnx.model.graph(), state, scope);
  NoteRefusedFunctions(onnx.model, state);
  CheckSizes(*graph, state.problems);

  size_problem = state.problems.size_problem();
  if (size_problem) NameByFlags(inputs, size_problem->fitting_dim);
  FUSEC_TRY(state.problems.ToResult());
  return ImportedModel{std::move(graph), std::move(state.warnings)};
}

std::string RangeText(const std::string& name, int64_t low, int64_t high) {
  std::string text = name + "=" + std::to_string(low);
  if (low != high) text += ".." + std::to_string(high);
  return text;
}

// What a dim was narrowed to, or what --dim would have to say for it.
using Narrowed = tl::expected<std::string, std::string>;

// The sizes that --dim gave to one of two names are those of both.
Narrowed MakeOne(const std::string& symbol, const std::string& same_as, ImportOptions& narrowed) {
  auto& ranges = narrowed.dim_ranges;
  const auto range = ranges.find(symbol);
  if (range != ranges.end()) {
    const auto [low, high] = ranges.emplace(same_as, range->second).first->second;
    if (range->second != std::pair(low, high)) return tl::unexpected(RangeText(symbol, low, high));
  }
  for (auto& [other, same] : narrowed.same_dims) {
    if (same == symbol) same = same_as;
  }
  narrowed.same_dims[symbol] = same_as;
  return symbol + "=" + same_as;
}

// What --dim promises, in `given`, is not taken back.
Narrowed Narrow(const FittingDim& fitting, const ImportOptions& given, ImportOptions& narrowed) {
  if (!fitting.same_as.empty()) return MakeOne(fitting.symbol, fitting.same_as, narrowed);
  const DimSymbol usual;
  auto& ranges = narrowed.dim_ranges;
  const auto known = ranges.try_emplace(fitting.symbol, usual.low, usual.high).first;
  const int64_t low = std::max(known->second.first, fitting.low);
  const int64_t high = std::min(known->second.second, fitting.high);
  if (given.dim_ranges.count(fitting.symbol) != 0 || low > high ||
      known->second == std::pair(low, high))
    return tl::unexpected(RangeText(fitting.symbol, fitting.low, std::max(high, fitting.low)));
  known->second = {low, high};
  return RangeText(fitting.symbol, low, high);
}

}  // namespace

// An exporter may write the sizes that it traced with into a model, slice a table of 50 positions
// by a dim that it calls free, or give the batch another name at each input: sizes that no run of
// the model could have are given up, with a warning, until the rest fits together.
Result<ImportedModel> ImportOnnx(const std::string& path, const ImportOptions& options) {
  constexpr size_t kMostDims = 64;
  ImportOptions narrowed = options;
  std::vector<std::string> warnings;
  Error error;
  while (true) {
    std::optional<Problems::SizeProblem> problem;
    Result<ImportedModel> model = ImportWith(path, narrowed, problem);
    if (model) {
      model->warnings.insert(model->warnings.begin(), warnings.begin(), warnings.end());
      return model;
    }
    // Without a problem of sizes, the narrowed names are none that --dim takes, or what is left to
    // say is no matter of sizes.
    if (warnings.empty() || model.error().kind != ErrorKind::kUsage) error = model.error();
    if (!problem || warnings.size() == kMostDims) break;
    const auto& [message, fitting] = *problem;
    const Narrowed said = Narrow(fitting, options, narrowed);
    if (!said) {
      error.message += "\n" + path + ": it would fit with --dim " + said.error();
      break;
    }
    warnings.push_back("compiled for " + *said + " only: " + message);
  }
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace fusec
