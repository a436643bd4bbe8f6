#include "runtime/src/artifact/bind_symbols.h"

#include <algorithm>
#include <string>

namespace fusec::runtime {
namespace {

class SymbolBinder {
 public:
  SymbolBinder(const Manifest& manifest, const std::vector<std::vector<int64_t>>& dims)
      : manifest_(manifest),
        dims_(dims),
        values_(manifest.symbols.size()),
        sources_(manifest.symbols.size(), -1) {}

  StatusOr<std::vector<int64_t>> Run() {
    FUSEC_RT_TRY(ForEachDim([&](size_t input, size_t axis) { return BindPlain(input, axis); }));
    // A dim such as batch*27 also determines batch. Each round that binds a symbol may make another
    // dim solvable.
    int bound_before = -1;
    while (bound_before != bound_) {
      bound_before = bound_;
      FUSEC_RT_TRY(ForEachDim([&](size_t input, size_t axis) { return Solve(input, axis); }));
    }
    for (size_t symbol = 0; symbol < values_.size(); ++symbol) {
      if (IsBound(static_cast<int>(symbol))) continue;
      return Fail(FUSEC_BAD_INPUT, "no input's dims tell the value of \"",
                  manifest_.symbols[symbol].name, "\"");
    }
    FUSEC_RT_TRY(ForEachDim([&](size_t input, size_t axis) { return Check(input, axis); }));
    return values_;
  }

 private:
  const DimExpression& Dim(size_t input, size_t axis) const {
    return manifest_.inputs[input].shape[axis];
  }
  bool IsBound(int symbol) const { return sources_[symbol] >= 0; }
  const std::string& SourceOf(int symbol) const { return manifest_.inputs[sources_[symbol]].name; }
  std::string Place(size_t input, size_t axis) const {
    return Text("input \"", manifest_.inputs[input].name, "\" dim ", axis, " is ",
                dims_[input][axis]);
  }

  template <class Visit>
  Status ForEachDim(Visit visit) {
    for (size_t input = 0; input < dims_.size(); ++input) {
      for (size_t axis = 0; axis < dims_[input].size(); ++axis) FUSEC_RT_TRY(visit(input, axis));
    }
    return {};
  }

  Status Bind(int index, int64_t value, size_t input, size_t axis) {
    const Symbol& symbol = manifest_.symbols[index];
    if (value < symbol.lowest() || value > symbol.max) {
      const std::string derived = Dim(input, axis).AsSymbol() >= 0
                                      ? std::string()
                                      : Text(", which makes \"", symbol.name, "\" ", value);
      return Fail(FUSEC_BAD_INPUT, Place(input, axis), derived, ", but \"", symbol.name,
                  "\" must be in ", symbol.lowest(), "..", symbol.max);
    }
    values_[index] = value;
    sources_[index] = static_cast<int>(input);
    ++bound_;
    return {};
  }

  Status BindPlain(size_t input, size_t axis) {
    const int symbol = Dim(input, axis).AsSymbol();
    if (symbol < 0) return {};
    const int64_t value = dims_[input][axis];
    if (!IsBound(symbol)) return Bind(symbol, value, input, axis);
    if (values_[symbol] == value) return {};
    return Fail(FUSEC_BAD_INPUT, Place(input, axis), ", but \"", manifest_.symbols[symbol].name,
                "\" is already ", values_[symbol], " (from input \"", SourceOf(symbol), "\")");
  }

  // The unbound symbol of a dim if it has exactly one, else -1.
  int Unknown(const DimExpression& dim) const {
    int unknown = -1;
    for (const int symbol : dim.Symbols()) {
      if (IsBound(symbol)) continue;
      if (unknown >= 0) return -1;
      unknown = symbol;
    }
    return unknown;
  }

  // Binds the unbound symbol of a dim if the dim is scale*symbol + offset. Whether it is linear is
  // tested with the values 0, 1, 2 and 1000003 of the symbol, between which products of the symbol
  // with itself, floordiv, mod, min and max are not linear. All dims are compared at the end in any
  // case.
  Status Solve(size_t input, size_t axis) {
    const DimExpression& dim = Dim(input, axis);
    const int unknown = Unknown(dim);
    if (unknown < 0) return {};
    constexpr int64_t kSamples[] = {0, 1, 2, 1000003};
    int64_t sampled[4];
    std::vector<int64_t> values = values_;
    for (int i = 0; i < 4; ++i) {
      values[unknown] = kSamples[i];
      const auto value = dim.Evaluate(values);
      if (!value) return {};
      sampled[i] = *value;
    }
    const int64_t offset = sampled[0];
    const int64_t scale = sampled[1] - offset;
    if (scale == 0) return {};
    for (int i = 2; i < 4; ++i) {
      int64_t product = 0, sum = 0;
      if (__builtin_mul_overflow(scale, kSamples[i], &product) ||
          __builtin_add_overflow(product, offset, &sum) || sum != sampled[i]) {
        return {};
      }
    }
    int64_t difference = 0;
    if (__builtin_sub_overflow(dims_[input][axis], offset, &difference)) return {};
    // -1 is a separate case because INT64_MIN % -1 traps.
    if (scale != -1 && difference % scale != 0) {
      return Fail(FUSEC_BAD_INPUT, Place(input, axis), ", expected ", dim.text(), " for some \"",
                  manifest_.symbols[unknown].name, "\"");
    }
    return Bind(unknown, scale == -1 ? -difference : difference / scale, input, axis);
  }

  Status Check(size_t input, size_t axis) const {
    const DimExpression& dim = Dim(input, axis);
    FUSEC_RT_ASSIGN(const int64_t expected, dim.Evaluate(values_));
    if (expected == dims_[input][axis]) return {};
    if (dim.IsConstant()) return Fail(FUSEC_BAD_INPUT, Place(input, axis), ", expected ", expected);
    std::string because;
    for (const int symbol : dim.Symbols()) {
      because += Text(because.empty() ? "" : ", ", manifest_.symbols[symbol].name, " = ",
                      values_[symbol], " from input \"", SourceOf(symbol), "\"");
    }
    return Fail(FUSEC_BAD_INPUT, Place(input, axis), ", expected ", dim.text(), " = ", expected,
                " (", because, ")");
  }

  const Manifest& manifest_;
  const std::vector<std::vector<int64_t>>& dims_;
  std::vector<int64_t> values_;
  std::vector<int> sources_;  // by symbol: the input that determined it, -1 if unbound
  int bound_ = 0;
};

}  // namespace

Status CheckRank(const TensorSignature& input, int64_t rank) {
  if (rank == static_cast<int64_t>(input.shape.size())) return {};
  std::string expected;
  for (const DimExpression& dim : input.shape) {
    expected += Text(expected.empty() ? "" : ", ", dim.text());
  }
  return Fail(FUSEC_BAD_INPUT, "input \"", input.name, "\" has rank ", rank, ", expected rank ",
              input.shape.size(), " ([", expected, "])");
}

bool EmptiesOutputs(const Manifest& manifest, size_t symbol) {
  if (manifest.symbols[symbol].min != 1) return false;
  std::vector<int64_t> low, high;  // values with the other symbols at their minima and maxima
  for (const Symbol& other : manifest.symbols) {
    low.push_back(std::max<int64_t>(other.min, 1));
    high.push_back(other.max);
  }
  low[symbol] = high[symbol] = 0;
  const auto is_zero = [&](const DimExpression& dim) {
    return dim.Evaluate(low).value_or(1) == 0 && dim.Evaluate(high).value_or(1) == 0;
  };
  const auto is_empty = [&](const TensorSignature& output) {
    for (size_t axis = 0; axis < output.sizes.size(); ++axis) {  // an empty run computes no sizes
      if (output.sizes[axis] >= 0 && !is_zero(output.shape[axis])) return false;
    }
    return std::any_of(output.shape.begin(), output.shape.end(), is_zero);
  };
  const auto begin = manifest.outputs.begin();
  return std::all_of(begin, begin + static_cast<int64_t>(manifest.output_count()), is_empty);
}

StatusOr<std::vector<int64_t>> BindSymbols(const Manifest& manifest,
                                           const std::vector<std::vector<int64_t>>& dims) {
  return SymbolBinder(manifest, dims).Run();
}

}  // namespace fusec::runtime
