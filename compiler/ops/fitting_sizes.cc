#include "compiler/ops/fitting_sizes.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <set>

#include "compiler/index/variables.h"

namespace fusec {

namespace {

constexpr int64_t kAllTriedUpTo = 512;
constexpr int64_t kLargestTried = 65536;  // the largest size of a symbol without --dim
constexpr size_t kMostPairsTried = 64;    // pairs of symbols that may be equal

bool EqualWhere(const Expr& a, const Expr& b, const std::string& symbol, const Expr& size) {
  const auto replace = [&](const std::string& name) {
    return name == symbol ? std::optional<Expr>(size) : std::nullopt;
  };
  return a.Substitute(replace, Ranges()) == b.Substitute(replace, Ranges());
}

// Small sizes, and those around the numbers in the expressions and around quotients of these, where
// a range of larger fitting sizes would begin or end.
std::set<int64_t> SizesToTry(const Expr& a, const Expr& b) {
  std::set<int64_t> numbers = {1, kLargestTried};
  const std::string text = a.ToString() + " " + b.ToString();
  for (size_t i = 0; i < text.size(); ++i) {
    const bool starts = isdigit(text[i]) && (i == 0 || !isalnum(text[i - 1]));
    if (starts) numbers.insert(std::strtoll(text.c_str() + i, nullptr, 10));
  }
  std::set<int64_t> sizes;
  for (int64_t size = 1; size <= kAllTriedUpTo; ++size) sizes.insert(size);
  for (const int64_t number : numbers) {
    for (const int64_t divisor : numbers) {
      if (divisor <= 0) continue;
      for (int64_t size = number / divisor - 1; size <= number / divisor + 1; ++size) {
        if (size >= 1 && size <= kLargestTried) sizes.insert(size);
      }
    }
  }
  return sizes;
}

// A symbol of `a` that makes `a` equal to `b` if it is the same as a symbol of `b`.
std::optional<FittingDim> SameDims(const Expr& a, const Expr& b) {
  std::vector<std::string> of_a, of_b;
  a.CollectSymbols(of_a);
  b.CollectSymbols(of_b);
  if (of_a.size() * of_b.size() > kMostPairsTried) return std::nullopt;
  for (const std::string& symbol : of_a) {
    for (const std::string& other : of_b) {
      if (symbol != other && EqualWhere(a, b, symbol, Expr::Symbol(other)))
        return FittingDim{symbol, 0, 0, other};
    }
  }
  return std::nullopt;
}

// The sizes of one symbol for which `a` equals `b`, if they are one contiguous range and not all
// sizes.
std::optional<FittingDim> FittingSizes(const Expr& a, const Expr& b) {
  std::vector<std::string> symbols;
  a.CollectSymbols(symbols);
  b.CollectSymbols(symbols);
  const std::set<int64_t> sizes = SizesToTry(a, b);
  for (const std::string& symbol : symbols) {
    int64_t low = 0, high = 0;  // 0: none yet
    bool run_ended = false, one_run = true;
    for (const int64_t size : sizes) {
      if (!EqualWhere(a, b, symbol, size)) {
        run_ended = low != 0;
        continue;
      }
      one_run &= !run_ended;
      if (low == 0) low = size;
      high = size;
    }
    if (low == 0 || !one_run || (low == 1 && high == kLargestTried)) continue;
    if (high == kLargestTried) high = std::numeric_limits<int64_t>::max();
    return FittingDim{symbol, low, high};
  }
  return std::nullopt;
}

bool IsPlain(const AtomRef& atom) { return atom->kind == Atom::Kind::kSymbol; }

// Solves `product` = `sum` for a symbol, where `product` is a number times that symbol and `sum` is
// a sum of products of other symbols.
std::optional<FittingDim> Multiple(const Expr& product, const Expr& sum) {
  if (product.terms().size() != 1 || product.terms()[0].atoms.size() != 1) return std::nullopt;
  const auto& [factor, atoms] = product.terms()[0];
  const std::string& symbol = atoms[0]->name;
  if (!IsPlain(atoms[0]) || factor <= 0 || sum.AsConstant()) return std::nullopt;
  const auto is_other = [&](const AtomRef& atom) { return IsPlain(atom) && atom->name != symbol; };
  Expr::Terms terms(sum.terms());
  for (Expr::Term& term : terms) {
    const bool is_size = term.coefficient > 0 && term.coefficient % factor == 0 &&
                         std::all_of(term.atoms.begin(), term.atoms.end(), is_other);
    if (!is_size) return std::nullopt;
    term.coefficient /= factor;
  }
  return FittingDim{symbol, 0, 0, Expr::FromTerms(std::move(terms)).ToString()};
}

// Makes `symbol` a multiple of the number `factor`, with a new symbol for the quotient: `items` is
// `items_per_9*9`.
FittingDim MultipleOf(const std::string& symbol, int64_t factor) {
  const std::string number = std::to_string(factor);
  return FittingDim{symbol, 0, 0, symbol + "_per_" + number + "*" + number};
}

// Collects the divisions by numbers in `expr`, at any depth.
void CollectDivisions(const Expr& expr, Atoms& divisions) {
  for (const Expr::Term& term : expr.terms()) {
    for (const AtomRef& atom : term.atoms) {
      if (IsPlain(atom)) continue;
      if (atom->kind == Atom::Kind::kFloorDiv && atom->right.AsConstant())
        divisions.push_back(atom);
      CollectDivisions(atom->left, divisions);
      CollectDivisions(atom->right, divisions);
    }
  }
}

// Looks for a symbol that `a` or `b` divides by a number, and for a remainder of that division with
// which `a` equals `b`: for example [n] reshaped to [3, n / 3], or [n - 1] to [3, (n - 1) / 3].
std::optional<FittingDim> DividedEvenly(const Expr& a, const Expr& b) {
  constexpr int64_t kMostTried = 64;
  Atoms divisions;
  CollectDivisions(a, divisions);
  CollectDivisions(b, divisions);
  Ranges ranges;
  const Expr quotient = SetVariable(ranges, "quotient", 1, kLargestTried);
  for (const AtomRef& division : divisions) {
    std::vector<std::string> symbols;
    division->left.CollectSymbols(symbols);
    const int64_t divisor = *division->right.AsConstant();
    if (symbols.size() != 1 || divisor < 2 || divisor > kMostTried) continue;
    for (int64_t rest = 0; rest < divisor; ++rest) {
      const auto replace = [&](const std::string& name) {
        return name == symbols[0] ? std::optional(quotient * divisor + rest) : std::nullopt;
      };
      if (a.Substitute(replace, ranges) != b.Substitute(replace, ranges)) continue;
      FittingDim multiple = MultipleOf(symbols[0], divisor);
      if (rest != 0) multiple.same_as += "+" + std::to_string(rest);
      return multiple;
    }
  }
  return std::nullopt;
}

}  // namespace

tl::unexpected<Error> SizesDiffer(std::string message, const Expr& a, const Expr& b) {
  std::optional<FittingDim> fitting = DividedEvenly(a, b);
  if (!fitting) fitting = FittingSizes(a, b);
  if (!fitting) fitting = SameDims(a, b);
  if (!fitting) fitting = Multiple(a, b);
  if (!fitting) fitting = Multiple(b, a);
  return tl::unexpected<Error>(Error{ErrorKind::kModel, std::move(message), std::move(fitting)});
}

tl::unexpected<Error> DoesNotDivide(std::string message, const Expr& dividend, const Expr& divisor,
                                    const Ranges& ranges) {
  std::optional<FittingDim> fitting;
  if (dividend.terms().size() == 1 && divisor.terms().size() == 1) {
    const auto& [factor, atoms] = dividend.terms()[0];
    const auto& [number, missing] = divisor.terms()[0];
    const auto symbol = std::find_if(atoms.begin(), atoms.end(), IsPlain);
    if (symbol != atoms.end() && missing.empty() && number > 0) {
      fitting = MultipleOf((*symbol)->name, number / std::gcd(number, factor));
    }
  }
  if (!fitting) {
    return SizesDiffer(std::move(message), FloorDiv(dividend, divisor, ranges) * divisor, dividend);
  }
  return tl::unexpected<Error>(Error{ErrorKind::kModel, std::move(message), std::move(fitting)});
}

tl::unexpected<Error> SizeTooSmall(std::string message, const Expr& small, const Expr& large) {
  auto fitting = FittingSizes(Min(small, large, Ranges()), small);
  // A size that a dim has at least if nothing else is said may still be too large for this one.
  if (large.AsSymbol() && small.AsConstant().value_or(0) > 0)
    fitting = FittingDim{*large.AsSymbol(), *small.AsConstant(), INT64_MAX};
  if (!fitting) return SizesDiffer(std::move(message), small, large);
  return tl::unexpected<Error>(Error{ErrorKind::kModel, std::move(message), std::move(fitting)});
}

}  // namespace fusec
