#include "compiler/import/model_inputs.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <optional>
#include <set>

#include "compiler/import/counted_sizes.h"
#include "compiler/import/grown_dims.h"
#include "compiler/import/names.h"
#include "compiler/import/problems.h"
#include "compiler/import/tensor_proto.h"
#include "compiler/ir/infer.h"

namespace fusec {
namespace {

// Names that cannot be symbols: the functions in the text of an Expr, and names of run-time counts.
bool IsTaken(const std::string& name) {
  constexpr std::string_view kFunctions[] = {"floordiv", "mod", "min", "max"};
  return std::find(std::begin(kFunctions), std::end(kFunctions), name) != std::end(kFunctions) ||
         name.starts_with(kCountPrefix);
}

// The symbols of a model's dims, by the text of dim_param.
class DimReader {
 public:
  DimReader(const ImportOptions& options, const std::string& path,
            std::vector<std::string>& warnings)
      : options_(options), path_(path), warnings_(warnings) {}

  // First pass: notes the dim_params that are plain names, so that expressions of them can be
  // recognized.
  void NotePlainNames(const onnx::TensorShapeProto& shape) {
    for (const auto& dim : shape.dim()) {
      if (dim.has_dim_param() && Identifier(dim.dim_param()) == dim.dim_param()) {
        plain_.insert(dim.dim_param());
      }
    }
  }

  // Notes the dim_params that may be 0.
  void NoteGrown(std::set<std::string> grown) { grown_ = std::move(grown); }

  // Second pass: notes the sizes that frozen inputs determine.
  Result<void> Freeze(const std::string& input, const onnx::TensorShapeProto& shape,
                      const TensorData& value) {
    const std::vector<int64_t>& dims = value.dims();
    if (static_cast<int>(dims.size()) != shape.dim_size()) {
      return Usage("the value given for input \"" + input + "\" has rank " +
                   std::to_string(dims.size()) + ", expected " + std::to_string(shape.dim_size()));
    }
    for (int axis = 0; axis < shape.dim_size(); ++axis) {
      const auto& dim = shape.dim(axis);
      int64_t expected = dim.has_dim_value() ? dim.dim_value() : dims[axis];
      if (dim.has_dim_param() && !dim.dim_param().empty()) {
        expected = sizes_.emplace(dim.dim_param(), dims[axis]).first->second;
      }
      if (expected >= 0 && expected != dims[axis]) {
        return Usage("the value given for input \"" + input + "\" has " +
                     std::to_string(dims[axis]) + " elements along axis " + std::to_string(axis) +
                     ", expected " + std::to_string(expected));
      }
    }
    return {};
  }

  // Third pass: the size of one axis of an input.
  Result<Expr> Dim(const std::string& input, int axis,
                   const onnx::TensorShapeProto::Dimension& dim) {
    if (dim.has_dim_value() && dim.dim_value() >= 0) return Expr(dim.dim_value());
    if (!dim.has_dim_param() || dim.dim_param().empty()) {
      std::string name;
      do {
        name = "d" + std::to_string(next_unnamed_++);
      } while (plain_.count(name));
      Warn(input, axis, "has no size and no name; it is called " + name);
      return Symbol(name);
    }
    return Known(input, axis, dim.dim_param());
  }

  std::vector<DimSymbol> TakeSymbols() { return std::move(symbols_); }
  std::map<std::string, std::string> TakeFlags() { return std::move(flags_); }

  // An error if --dim names a dimension that the model does not have.
  Result<void> CheckAllUsed() const {
    for (const auto& [name, range] : options_.dim_ranges) {
      if (met_.count(name)) continue;
      std::string known;
      for (const std::string& symbol : met_in_order_)
        known += (known.empty() ? "" : " or ") + symbol;
      return Usage("--dim " + name + ": the model has no such dimension, " +
                   (known.empty() ? "all sizes are fixed" : "expected " + known));
    }
    return {};
  }

 private:
  tl::unexpected<Error> Usage(const std::string& message) const {
    return Fail(ErrorKind::kUsage, path_ + ": " + message);
  }
  void Warn(const std::string& input, int axis, const std::string& what) {
    warnings_.push_back("input \"" + input + "\" axis " + std::to_string(axis) + " " + what);
  }

  Result<Expr> Known(const std::string& input, int axis, const std::string& text) {
    const auto known = dims_.find(text);
    if (known != dims_.end()) return known->second;
    FUSEC_ASSIGN(const Expr expr, Named(input, axis, text));
    dims_.emplace(text, expr);
    return expr;
  }

  Result<Expr> Named(const std::string& input, int axis, const std::string& text) {
    const auto frozen = sizes_.find(text);
    if (frozen != sizes_.end()) {
      met_.insert(text);
      return Expr(frozen->second);
    }
    if (plain_.count(text)) {
      if (!IsTaken(text)) return Symbol(text);
    } else if (const Result<Expr> expr = Expr::Parse(text); expr && IsOfPlainNames(*expr)) {
      std::vector<std::string> names;
      expr->CollectSymbols(names);
      std::map<std::string, Expr> values;
      for (const std::string& name : names) {
        FUSEC_ASSIGN(values[name], Known(input, axis, name));
      }
      const Expr size =
          expr->Substitute([&](const std::string& name) { return values.at(name); }, Ranges());
      if (MayBeSize(size)) return size;
    }
    std::string name = Identifier(text);
    while (plain_.count(name) || met_.count(name) || IsTaken(name))
      name = IsTaken(name + "_") ? "dim_" + name : name + "_";
    Warn(input, axis, "has the size \"" + text + "\"; it is called " + name);
    return Symbol(name, plain_.count(text) ? text : name);
  }

  // False for negative constants and for expressions that have no value if all symbols are 1 (a
  // division by 0).
  static bool MayBeSize(const Expr& expr) {
    if (const std::optional<int64_t> number = expr.AsConstant()) return *number >= 0;
    std::vector<std::string> names;
    expr.CollectSymbols(names);
    std::map<std::string, int64_t> ones;
    for (const std::string& name : names) ones[name] = 1;
    return expr.Evaluate(ones).has_value();
  }

  bool IsOfPlainNames(const Expr& expr) const {
    std::vector<std::string> names;
    expr.CollectSymbols(names);
    return std::all_of(names.begin(), names.end(),
                       [&](const std::string& name) { return plain_.count(name) != 0; });
  }

  Result<Expr> Symbol(const std::string& name) { return Symbol(name, name); }
  // `flag` is the symbol's name for --dim, which accepts `name` as well.
  Result<Expr> Symbol(const std::string& name, const std::string& flag) {
    if (met_.insert(flag).second) met_in_order_.push_back(flag);
    met_.insert(name);
    const auto same = options_.same_dims.find(flag);
    if (same != options_.same_dims.end()) return OfOthers(same->second);
    flags_[name] = flag;
    DimSymbol symbol{name};
    if (grown_.count(flag)) symbol.low = 0;
    auto range = options_.dim_ranges.find(flag);
    if (range == options_.dim_ranges.end()) range = options_.dim_ranges.find(name);
    if (range != options_.dim_ranges.end()) std::tie(symbol.low, symbol.high) = range->second;
    if (symbol.low < 0 || symbol.low > symbol.high) {
      return Usage("--dim " + flag + "=" + std::to_string(symbol.low) + ".." +
                   std::to_string(symbol.high) + ": expected 0 <= low <= high");
    }
    const Expr dim = symbol.low == symbol.high ? Expr(symbol.low) : Expr::Symbol(name);
    by_flag_.emplace(flag, dim);
    if (symbol.low == symbol.high) return dim;
    const bool fresh = std::find_if(symbols_.begin(), symbols_.end(), [&](const DimSymbol& other) {
                         return other.name == name;
                       }) == symbols_.end();
    if (fresh) symbols_.push_back(symbol);
    return dim;
  }

  // Resolves an expression of names for --dim. Its symbols may occur in a later input only, or in
  // none.
  Result<Expr> OfOthers(const Expr& expr) {
    std::vector<std::string> names;
    expr.CollectSymbols(names);
    std::map<std::string, Expr> values;
    for (const std::string& name : names) {
      const auto known = by_flag_.find(name);
      if (known != by_flag_.end()) {
        values[name] = known->second;
      } else {
        FUSEC_ASSIGN(values[name], plain_.count(name) ? Known("", 0, name) : Symbol(name));
      }
    }
    return expr.Substitute([&](const std::string& name) { return values.at(name); }, Ranges());
  }

  const ImportOptions& options_;
  const std::string& path_;
  std::vector<std::string>& warnings_;
  std::set<std::string> plain_;
  std::set<std::string> grown_;
  std::map<std::string, int64_t> sizes_;  // dim_param -> size, decided by a frozen input
  std::map<std::string, Expr> dims_;      // dim_param -> what it became
  std::vector<DimSymbol> symbols_;
  std::map<std::string, std::string> flags_;  // symbol -> what --dim calls it
  std::map<std::string, Expr> by_flag_;
  std::set<std::string> met_;
  std::vector<std::string> met_in_order_;
  int next_unnamed_ = 0;
};

std::set<std::string> InitializerNames(const onnx::GraphProto& graph) {
  std::set<std::string> names;
  for (const auto& initializer : graph.initializer()) names.insert(initializer.name());
  for (const auto& sparse : graph.sparse_initializer()) names.insert(sparse.values().name());
  return names;
}

// Why the declared type of an input is not supported; nullopt if it is.
std::optional<std::string> WrongType(const onnx::ValueInfoProto& input) {
  const std::string place = "input \"" + input.name() + "\" ";
  switch (input.type().value_case()) {
    case onnx::TypeProto::kTensorType:
      break;
    case onnx::TypeProto::kSequenceType:
      return place + "is a sequence, expected a tensor";
    case onnx::TypeProto::kMapType:
      return place + "is a map, expected a tensor";
    case onnx::TypeProto::kOptionalType:
      return place + "is an optional, expected a tensor";
    case onnx::TypeProto::kSparseTensorType:
      return place + "is a sparse tensor, expected a dense one";
    default:
      return place + "has no type, expected a tensor";
  }
  const int element_type = input.type().tensor_type().elem_type();
  if (!DtypeFromOnnx(element_type)) return place + "has " + UnsupportedType(element_type);
  if (!input.type().tensor_type().has_shape()) return place + "has no shape, expected its rank";
  if (const int rank = input.type().tensor_type().shape().dim_size(); rank > kMostAxes)
    return place + "has rank " + std::to_string(rank) + ", expected at most " +
           std::to_string(kMostAxes);
  return std::nullopt;
}

Result<void> CheckFrozen(const onnx::ValueInfoProto& input, const TensorData& value,
                         const std::string& path) {
  const Dtype expected = *DtypeFromOnnx(input.type().tensor_type().elem_type());
  if (value.dtype() == expected) return {};
  return Fail(ErrorKind::kUsage, path + ": the value given for input \"" + input.name() + "\" is " +
                                     std::string(DtypeName(value.dtype())) + ", expected " +
                                     std::string(DtypeName(expected)));
}

Result<void> CheckFrozenNames(const onnx::GraphProto& graph, const ImportOptions& options,
                              const std::string& path) {
  for (const auto& [name, value] : options.frozen_inputs) {
    std::string known;
    bool found = false;
    for (const auto& input : graph.input()) {
      found |= input.name() == name;
      known += (known.empty() ? "\"" : ", \"") + input.name() + "\"";
    }
    if (!found) {
      return Fail(ErrorKind::kUsage, path + ": a value is given for input \"" + name +
                                         "\", but the inputs are " +
                                         (known.empty() ? "none" : known));
    }
  }
  return {};
}

void WarnOfDefaults(const onnx::ModelProto& model, const std::set<std::string>& initializers,
                    std::vector<std::string>& warnings) {
  if (model.ir_version() < 4) return;  // older models must list every initializer as an input
  std::string names;
  int count = 0;
  for (const auto& input : model.graph().input()) {
    if (!initializers.count(input.name()) || ++count > 5) continue;
    names += (names.empty() ? "\"" : ", \"") + input.name() + "\"";
  }
  if (count == 0) return;
  warnings.push_back(std::to_string(count) +
                     (count == 1 ? " input has a default value and becomes a constant: "
                                 : " inputs have default values and become constants: ") +
                     names + (count > 5 ? ", ..." : ""));
}

// Exporters fix all dims unless they are told which are dynamic; a model for a single batch size is
// rarely intended.
void WarnOfAFixedBatch(ArrayRef<const onnx::ValueInfoProto*> inputs,
                       std::vector<std::string>& warnings) {
  int64_t batch = -1;
  for (const onnx::ValueInfoProto* input : inputs) {
    const onnx::TensorShapeProto& shape = input->type().tensor_type().shape();
    for (const auto& dim : shape.dim()) {
      if (!dim.has_dim_value()) return;
    }
    if (shape.dim_size() == 0) continue;
    if (batch >= 0 && shape.dim(0).dim_value() != batch) return;
    batch = shape.dim(0).dim_value();
  }
  if (batch < 0) return;
  warnings.push_back("the first dim of every input was fixed at " + std::to_string(batch) +
                     " by the export, and no other size will run; dynamic_axes or dynamic_shapes "
                     "make it symbolic");
}

}  // namespace

Result<ModelInputs> ReadInputs(const onnx::ModelProto& model, const ImportOptions& options,
                               Problems& problems, std::vector<std::string>& warnings) {
  const onnx::GraphProto& graph = model.graph();
  const std::set<std::string> initializers = InitializerNames(graph);
  WarnOfDefaults(model, initializers, warnings);
  FUSEC_TRY(CheckFrozenNames(graph, options, problems.path()));

  DimReader dims(options, problems.path(), warnings);
  dims.NoteGrown(GrownDims(graph));
  std::vector<const onnx::ValueInfoProto*> declared;
  for (const onnx::ValueInfoProto& input : graph.input()) {
    const bool frozen = options.frozen_inputs.count(input.name()) != 0;
    if (initializers.count(input.name()) && !frozen) continue;
    if (const auto wrong = WrongType(input)) {
      problems.Add(*wrong);
      continue;
    }
    declared.push_back(&input);
    dims.NotePlainNames(input.type().tensor_type().shape());
  }
  for (const onnx::ValueInfoProto* input : declared) {
    const auto frozen = options.frozen_inputs.find(input->name());
    if (frozen == options.frozen_inputs.end()) continue;
    FUSEC_TRY(CheckFrozen(*input, frozen->second, problems.path()));
    FUSEC_TRY(dims.Freeze(input->name(), input->type().tensor_type().shape(), frozen->second));
  }

  WarnOfAFixedBatch(declared, warnings);

  ModelInputs result;
  for (const onnx::ValueInfoProto* proto : declared) {
    ModelInput input{proto->name(), {}, nullptr};
    const auto frozen = options.frozen_inputs.find(input.name);
    input.type.dtype = *DtypeFromOnnx(proto->type().tensor_type().elem_type());
    if (frozen != options.frozen_inputs.end()) {
      input.frozen = &frozen->second;
      input.type.shape.assign(frozen->second.dims().begin(), frozen->second.dims().end());
    } else {
      const onnx::TensorShapeProto& shape = proto->type().tensor_type().shape();
      for (int axis = 0; axis < shape.dim_size(); ++axis) {
        FUSEC_ASSIGN(Expr dim, dims.Dim(input.name, axis, shape.dim(axis)));
        input.type.shape.push_back(std::move(dim));
      }
    }
    result.inputs.push_back(std::move(input));
  }
  // If an input was rejected, a dim may be unknown for that reason alone.
  if (problems.empty()) FUSEC_TRY(dims.CheckAllUsed());
  result.symbols = dims.TakeSymbols();
  result.flags = dims.TakeFlags();
  return result;
}

}  // namespace fusec
