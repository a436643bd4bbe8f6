#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compiler/reference/interpreter.h"

namespace fusec {
namespace {

using Symbols = std::map<std::string, int64_t>;

std::string ShapeText(ShapeRef shape) {
  std::vector<std::string> dims;
  for (const Expr& dim : shape) dims.push_back(dim.ToString());
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

class SymbolBinder {
 public:
  SymbolBinder(const Graph& graph, ArrayRef<std::vector<int64_t>> input_dims)
      : graph_(graph), input_dims_(input_dims), ranges_(graph.SymbolRanges()) {}

  Result<Symbols> Run() {
    FUSEC_TRY(CheckRanks());
    FUSEC_TRY(ForEachDim([&](size_t input, size_t axis) { return BindPlain(input, axis); }));
    // A dim such as batch*27 determines batch as well. Each symbol that a round binds may make
    // another dim solvable.
    size_t bound_before;
    do {
      bound_before = values_.size();
      FUSEC_TRY(ForEachDim([&](size_t input, size_t axis) { return Solve(input, axis); }));
    } while (values_.size() != bound_before);
    FUSEC_TRY(ForEachDim([&](size_t input, size_t axis) { return Check(input, axis); }));
    for (const DimSymbol& symbol : graph_.symbols) {
      if (values_.count(symbol.name) == 0) {
        return ModelError(fmt::format("no input's dims tell the value of \"{}\"", symbol.name));
      }
    }
    return values_;
  }

 private:
  const Expr& Dim(size_t input, size_t axis) const {
    return graph_.inputs[input]->type.shape[axis];
  }
  std::string Place(size_t input, size_t axis) const {
    return fmt::format("input \"{}\" dim {} is {}", graph_.InputName(input), axis,
                       input_dims_[input][axis]);
  }

  Result<void> CheckRanks() const {
    if (input_dims_.size() != graph_.inputs.size()) {
      return Fail(ErrorKind::kInput, fmt::format("{} inputs were given, expected {}",
                                                 input_dims_.size(), graph_.inputs.size()));
    }
    for (size_t i = 0; i < input_dims_.size(); ++i) {
      const Shape& shape = graph_.inputs[i]->type.shape;
      if (input_dims_[i].size() != shape.size()) {
        return Fail(
            ErrorKind::kInput,
            fmt::format("input \"{}\" has rank {} ({}), expected rank {} ({})", graph_.InputName(i),
                        input_dims_[i].size(), input_dims_[i], shape.size(), ShapeText(shape)));
      }
    }
    return {};
  }

  template <class Visit>
  Result<void> ForEachDim(Visit visit) {
    for (size_t input = 0; input < input_dims_.size(); ++input) {
      for (size_t axis = 0; axis < input_dims_[input].size(); ++axis) {
        FUSEC_TRY(visit(input, axis));
      }
    }
    return {};
  }

  Result<void> Bind(const std::string& name, int64_t value, size_t input, size_t axis) {
    for (const DimSymbol& symbol : graph_.symbols) {
      if (symbol.name != name || (value >= symbol.low && value <= symbol.high)) continue;
      const std::string derived = Dim(input, axis).AsSymbol()
                                      ? ""
                                      : fmt::format(", which makes \"{}\" {}", name, value);
      return Fail(ErrorKind::kInput,
                  fmt::format("{}{}, but \"{}\" must be in {}..{}", Place(input, axis), derived,
                              name, symbol.low, symbol.high));
    }
    values_[name] = value;
    sources_[name] = graph_.InputName(input);
    return {};
  }

  Result<void> BindPlain(size_t input, size_t axis) {
    const std::optional<std::string> name = Dim(input, axis).AsSymbol();
    if (!name) return {};
    const int64_t value = input_dims_[input][axis];
    const auto bound = values_.find(*name);
    if (bound == values_.end()) return Bind(*name, value, input, axis);
    if (bound->second != value) {
      return Fail(ErrorKind::kInput,
                  fmt::format("{}, but \"{}\" is already {} (from input \"{}\")",
                              Place(input, axis), *name, bound->second, sources_[*name]));
    }
    return {};
  }

  // Binds the symbol of a dim a*symbol + b once all other symbols of the dim are known.
  Result<void> Solve(size_t input, size_t axis) {
    const Expr known = Dim(input, axis).Substitute(
        [&](const std::string& name) -> std::optional<Expr> {
          const auto bound = values_.find(name);
          if (bound == values_.end()) return std::nullopt;
          return Expr(bound->second);
        },
        ranges_);
    int64_t scale = 0;
    int64_t offset = 0;
    std::string unknown;
    for (const Expr::Term& term : known.terms()) {
      if (term.atoms.empty()) {
        offset = term.coefficient;
      } else if (unknown.empty() && term.atoms.size() == 1 &&
                 term.atoms[0]->kind == Atom::Kind::kSymbol) {
        unknown = term.atoms[0]->name;
        scale = term.coefficient;
      } else {
        return {};
      }
    }
    if (unknown.empty()) return {};
    const int64_t difference = input_dims_[input][axis] - offset;
    if (difference % scale != 0) {
      return Fail(ErrorKind::kInput,
                  fmt::format("{}, expected {} for some \"{}\"", Place(input, axis),
                              Dim(input, axis).ToString(), unknown));
    }
    return Bind(unknown, difference / scale, input, axis);
  }

  Result<void> Check(size_t input, size_t axis) const {
    const Expr& dim = Dim(input, axis);
    std::vector<std::string> names;
    dim.CollectSymbols(names);
    std::vector<std::string> because;
    for (const std::string& name : names) {
      const auto bound = values_.find(name);
      if (bound == values_.end()) {
        return ModelError(
            fmt::format("no input's dims tell the value of \"{}\", which input "
                        "\"{}\" dim {} ({}) needs",
                        name, graph_.InputName(input), axis, dim.ToString()));
      }
      because.push_back(
          fmt::format("{} = {} from input \"{}\"", name, bound->second, sources_.at(name)));
    }
    FUSEC_ASSIGN(const int64_t expected, dim.Evaluate(values_));
    if (expected == input_dims_[input][axis]) return {};
    if (names.empty()) {
      return Fail(ErrorKind::kInput, fmt::format("{}, expected {}", Place(input, axis), expected));
    }
    return Fail(ErrorKind::kInput,
                fmt::format("{}, expected {} = {} ({})", Place(input, axis), dim.ToString(),
                            expected, fmt::join(because, ", ")));
  }

  const Graph& graph_;
  ArrayRef<std::vector<int64_t>> input_dims_;
  const Ranges ranges_;
  Symbols values_;
  std::map<std::string, std::string> sources_;  // symbol -> the input that determined it
};

}  // namespace

Result<Symbols> BindSymbols(const Graph& graph, ArrayRef<std::vector<int64_t>> input_dims) {
  return SymbolBinder(graph, input_dims).Run();
}

}  // namespace fusec
