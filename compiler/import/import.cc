#include "compiler/import/import.h"

#include <onnx/inliner/inliner.h>

#include <algorithm>
#include <exception>
#include <set>

#include "compiler/import/counted_sizes.h"
#include "compiler/import/graph_import.h"
#include "compiler/import/inlined_size.h"
#include "compiler/import/model_inputs.h"
#include "compiler/import/names.h"
#include "compiler/import/onnx_reader.h"
#include "compiler/import/segment_pattern.h"
#include "compiler/import/tensor_proto.h"
#include "compiler/import/weight_match.h"
#include "compiler/support/terminal.h"

namespace fusec {
namespace {

// Replaces calls of the model's own functions by their bodies. The inliner skips functions written
// for another opset; NoteRefusedFunctions names these, because their calls are reported as
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

// Warns if the declared type of an output contradicts the inferred one: exporters trace with
// example sizes and sometimes leave these in the declaration.
void CompareDeclaration(const onnx::ValueInfoProto& output, const TensorType& inferred,
                        ImportState& state) {
  if (output.type().has_sequence_type()) return;  // of maps, which ZipMap would make
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
    if (scope.GetSequence(output.name()) != nullptr) {
      state.problems.Add("output \"" + output.name() + "\" is a sequence, expected a tensor");
    }
    Value* value = scope.Get(output.name());
    if (value == nullptr) continue;  // its node failed, or nothing makes it: reported already
    if (const auto narrow = state.narrow.find(value); narrow != state.narrow.end()) {
      state.problems.Add("output \"" + output.name() + "\" has " +
                         UnsupportedType(narrow->second.data_type));
    }
    state.graph.outputs.push_back(value);
    state.graph.output_names.push_back(Printable(output.name()));
    CompareDeclaration(output, value->type, state);
  }
  if (graph.output_size() == 0) state.problems.Add("the graph has no outputs");
}

// Whether a tensor has more than 2^48 bytes for all sizes of its symbols. This includes sizes that
// overflow 64 bits.
bool IsTooLarge(const TensorType& type, const Ranges& ranges) {
  constexpr int64_t kMostBytes = int64_t{1} << 48;
  int64_t bytes = DtypeBytes(type.dtype);
  for (const Expr& dim : type.shape) {
    const int64_t least = std::max<int64_t>(ranges.IntervalOf(dim).low, 1);
    if (__builtin_mul_overflow(bytes, least, &bytes) || bytes > kMostBytes) return true;
  }
  return false;
}

// Reports the first tensor that is too large; further ones mostly follow from it.
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

// Replaces symbols by their names for --dim. Of two symbols that must be equal, the one that occurs
// first in the inputs is kept.
void NameByFlags(const ModelInputs& inputs, FittingDim& fitting) {
  const auto place_of = [&](const std::string& name) {
    return std::find_if(inputs.symbols.begin(), inputs.symbols.end(),
                        [&](const DimSymbol& symbol) { return symbol.name == name; });
  };
  const auto other = place_of(fitting.same_as);
  if (other != inputs.symbols.end() && place_of(fitting.symbol) < other)
    std::swap(fitting.symbol, fitting.same_as);
  const auto flag_of = [&](const std::string& name) {
    const auto flag = inputs.flags.find(name);
    return flag == inputs.flags.end() ? name : flag->second;
  };
  fitting.symbol = flag_of(fitting.symbol);
  if (fitting.same_as.empty()) return;
  const auto by_flag = [&](const std::string& name) { return Expr::Symbol(flag_of(name)); };
  const Expr same_as = *Expr::Parse(fitting.same_as);
  fitting.same_as = same_as.Substitute(by_flag, Ranges()).ToString();
}

// Adds the dims of outputs in place to `options.same_dims`.
void TieDimsInPlace(const onnx::GraphProto& graph, ImportOptions& options) {
  for (const InPlace& in_place : options.in_place) {
    for (const auto& output : graph.output()) {
      const auto wanted = in_place.InputOf(output.name());
      const auto input = std::find_if(graph.input().begin(), graph.input().end(),
                                      [&](const auto& one) { return one.name() == wanted; });
      if (!wanted || input == graph.input().end()) continue;
      const auto& before = input->type().tensor_type().shape();
      const auto& behind = output.type().tensor_type().shape();
      for (int i = 0; i < std::min(before.dim_size(), behind.dim_size()); ++i) {
        const std::string &from = behind.dim(i).dim_param(), &to = before.dim(i).dim_param();
        const auto size = Expr::Parse(to);
        if (!from.empty() && !to.empty() && from != to && size)
          options.same_dims.emplace(from, *size);
      }
    }
  }
}

// One attempt to import; `size_problem` gets the first problem that other sizes of a dim would
// solve.
Result<ImportedModel> ImportWith(const std::string& path, ImportOptions options,
                                 std::optional<Problems::SizeProblem>& size_problem) {
  FUSEC_ASSIGN(OnnxFile onnx, ReadOnnx(path));
  TieDimsInPlace(onnx.model.graph(), options);
  FUSEC_TRY(InlineFunctions(onnx.model, path));
  RecognizeSegments(*onnx.model.mutable_graph());

  auto graph = std::make_unique<Graph>();
  graph->RememberNames();
  ImportState state(path, *graph);
  for (const auto& import : onnx.model.opset_import()) {
    state.opsets[import.domain()] = import.version();
  }
  state.opsets.try_emplace("", kMaxOpset);  // a model may have ops of other domains only
  SetMetadata(onnx.model, path, state);

  FUSEC_ASSIGN(const ModelInputs inputs,
               ReadInputs(onnx.model, options, state.problems, state.warnings));
  // All inputs are first defined as failed, so that nodes which read an input of an unsupported
  // type do not repeat its problem.
  Scope scope;
  for (const auto& input : onnx.model.graph().input()) scope.Define(input.name(), nullptr);
  AddInputs(inputs, state, scope);
  std::vector<std::string> initializers;
  for (const auto& initializer : onnx.model.graph().initializer())
    initializers.push_back(initializer.name());
  WeightMatch weight_match(options, initializers);
  state.weight_match = &weight_match;
  state.counts.SetSame(options.same_dims);
  ImportInitializers(*onnx.model.mutable_graph(), OwnedPayloads(onnx), state, scope);
  if (state.problems.empty()) {
    const Result<std::vector<std::string>> ignored = weight_match.Finish();
    if (!ignored) return Fail(ignored.error().kind, path + ": " + ignored.error().message);
    state.warnings.insert(state.warnings.end(), ignored->begin(), ignored->end());
  }
  ImportNodes(*onnx.model.mutable_graph(), state, scope);
  AddOutputs(onnx.model.graph(), state, scope);
  graph->ForgetNames();
  SizeTotals totals = state.counts.Totals(*graph);
  state.counts.Resolve(*graph, state.ranges, state.problems);
  NoteRefusedFunctions(onnx.model, state);
  CheckSizes(*graph, state.problems);

  size_problem = state.problems.size_problem();
  if (size_problem) NameByFlags(inputs, size_problem->fitting_dim);
  FUSEC_TRY(state.problems.ToResult());
  return ImportedModel{std::move(graph), std::move(state.warnings), std::move(totals),
                       std::move(state.constant_names)};
}

std::string RangeText(const std::string& name, int64_t low, int64_t high) {
  std::string text = name + "=" + std::to_string(low);
  if (low != high) text += ".." + std::to_string(high);
  return text;
}

// Restricts the sizes of dims, one after the other, to those for which the model is consistent.
class Narrowing {
 public:
  explicit Narrowing(const ImportOptions& given) : given_(given), options_(given) {}

  const ImportOptions& options() const { return options_; }
  size_t count() const { return narrowed_.size(); }

  std::vector<std::string> Warnings() const {
    std::vector<std::string> warnings;
    for (const auto& [size, message] : narrowed_)
      warnings.push_back("compiled for " + size + " only: " + message);
    return warnings;
  }

  // Adds the restriction that solves `problem`. False if it contradicts what --dim promises;
  // `wanted` is then the argument of --dim that would fit, if there is one.
  bool GiveUp(const Problems::SizeProblem& problem, std::string& wanted) {
    const auto& [message, fitting] = problem;
    return fitting.same_as.empty()
               ? Limit(fitting, message, wanted)
               : Tie(fitting.symbol, *Expr::Parse(fitting.same_as), message, wanted);
  }

 private:
  using Range = std::pair<int64_t, int64_t>;

  bool Limit(const FittingDim& fitting, const std::string& message, std::string& wanted) {
    const DimSymbol usual;
    Range& known =
        options_.dim_ranges.try_emplace(fitting.symbol, usual.low, usual.high).first->second;
    const Range both = {std::max(known.first, fitting.low), std::min(known.second, fitting.high)};
    if (given_.dim_ranges.count(fitting.symbol) != 0 || both.first > both.second || known == both) {
      wanted = RangeText(fitting.symbol, fitting.low, std::max(both.second, fitting.low));
      return false;
    }
    known = both;
    narrowed_.push_back({RangeText(fitting.symbol, both.first, both.second), message});
    return true;
  }

  // Replaces `symbol` by `expr` of other symbols. The range that --dim gave it is passed on to
  // them.
  bool Tie(std::string symbol, Expr expr, const std::string& message, std::string& wanted) {
    if (const auto other = expr.AsSymbol(); other && IsFreer(*other, symbol)) {
      expr = Expr::Symbol(symbol);
      symbol = *other;
    }
    // A count that already equals another expression.
    if (options_.same_dims.count(symbol) != 0) return false;
    if (!PassRangeOn(symbol, expr, wanted)) return false;
    std::vector<std::string> names;
    expr.CollectSymbols(names);
    const std::string invented = symbol + "_per_";
    for (const std::string& name : names) {
      if (name.rfind(invented, 0) == 0) made_up_.insert(name);
    }
    const auto replace = [&](const std::string& name) {
      return name == symbol ? std::optional<Expr>(expr) : std::nullopt;
    };
    for (auto& [other, same] : options_.same_dims) same = same.Substitute(replace, Ranges());
    options_.same_dims[symbol] = expr;
    if (made_up_.count(symbol) == 0) {
      narrowed_.push_back({symbol + "=" + expr.ToString(), message});
      return true;
    }
    // Warnings about made-up symbols are updated to what these symbols turned out to be.
    for (auto& [size, unused] : narrowed_) {
      const std::string name = size.substr(0, size.find('='));
      const auto same = options_.same_dims.find(name);
      if (same != options_.same_dims.end()) size = name + "=" + same->second.ToString();
    }
    return true;
  }

  // Whether `symbol` is replaced by `other` rather than the other way round: it is if it was made
  // up, or if it is a run-time count, of two counts the later one.
  bool IsFreer(const std::string& symbol, const std::string& other) const {
    if (made_up_.count(symbol) != 0) return true;
    if (!IsCounted(Expr::Symbol(symbol))) return false;
    const auto is_earlier = [](const std::string& a, const std::string& b) {
      // Compares the numbers after the prefix.
      return std::pair(a.size(), a) < std::pair(b.size(), b);
    };
    return !IsCounted(Expr::Symbol(other)) || is_earlier(other, symbol);
  }

  bool PassRangeOn(const std::string& symbol, const Expr& expr, std::string& wanted) {
    const auto range = options_.dim_ranges.find(symbol);
    if (range == options_.dim_ranges.end()) return true;
    if (expr.terms().size() != 1 || expr.terms()[0].atoms.size() != 1) return false;
    const auto& [factor, atoms] = expr.terms()[0];
    const Range here = {(range->second.first + factor - 1) / factor, range->second.second / factor};
    const Range there = options_.dim_ranges.emplace(atoms[0]->name, here).first->second;
    if (made_up_.count(symbol)) options_.dim_ranges.erase(range);
    if (here == there) return true;
    const auto [name, times] = Original(symbol);
    wanted = RangeText(name, there.first * factor * times, there.second * factor * times);
    return false;
  }

  // The model's symbol that a made-up symbol was introduced for, and the factor between the two.
  std::pair<std::string, int64_t> Original(const std::string& symbol) const {
    for (const auto& [name, same] : options_.same_dims) {
      if (made_up_.count(symbol) && same == Expr::Symbol(symbol) * same.terms()[0].coefficient)
        return {name, same.terms()[0].coefficient};
    }
    return {symbol, 1};
  }

  struct Narrowed {
    std::string size;     // "seq=1..64", "items=batch*9"
    std::string message;  // error of the node that requires it
  };
  const ImportOptions& given_;
  ImportOptions options_;
  std::vector<Narrowed> narrowed_;
  std::set<std::string> made_up_;  // symbols that the model lacks
};

}  // namespace

// An exporter may write the sizes that it traced with into a model, slice a table of 50 positions
// by a dim that it declares free, or give the batch another name at each input. Dims are therefore
// restricted, with a warning, until all sizes of the model fit together.
Result<ImportedModel> ImportOnnx(const std::string& path, const ImportOptions& options) {
  constexpr size_t kMostDims = 64;
  Narrowing narrowing(options);
  Error error;
  for (size_t tries = 0;; ++tries) {
    std::optional<Problems::SizeProblem> problem;
    Result<ImportedModel> model = ImportWith(path, narrowing.options(), problem);
    if (model) {
      const std::vector<std::string> warnings = narrowing.Warnings();
      model->warnings.insert(model->warnings.begin(), warnings.begin(), warnings.end());
      for (std::string& warning : model->warnings) warning = PrintableLine(warning);
      return model;
    }
    // After a restriction, a usage error may be about restricted dims, which the user did not name:
    // the previous error is kept then.
    if (narrowing.count() == 0 || model.error().kind != ErrorKind::kUsage) error = model.error();
    if (!problem || tries == kMostDims) break;
    std::string wanted;
    if (narrowing.GiveUp(*problem, wanted)) continue;
    if (!wanted.empty()) error.message += "\n" + path + ": it would fit with --dim " + wanted;
    break;
  }
  error.message = Printable(error.message);  // it may quote the model and libonnx
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace fusec
