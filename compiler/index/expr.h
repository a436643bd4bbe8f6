#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/adt.h"
#include "compiler/support/result.h"

namespace fusec {

class Ranges;
struct Atom;
using AtomRef = std::shared_ptr<const Atom>;
using Atoms = SmallVector<AtomRef, 1>;

// A symbolic integer: a sum of terms, each an integer times a product of atoms. An atom is a symbol
// ("batch", a loop variable) or a floordiv, mod, min or max of two expressions. Expressions are
// immutable and canonical: equal expressions have equal text. The same class represents dims of
// tensors, indices into buffers and launch sizes, so that all of them are simplified by the same
// rules. Coefficients saturate at the limits of int64_t instead of wrapping, so that an overflow
// never flips the result of a comparison.
class Expr {
 public:
  struct Term {
    int64_t coefficient = 0;
    Atoms atoms;  // sorted by text; empty for the constant term
  };
  using Terms = SmallVector<Term, 1>;

  Expr() = default;  // zero
  Expr(int64_t constant);
  Expr(int constant) : Expr(static_cast<int64_t>(constant)) {}
  static Expr Symbol(std::string name);
  static Expr FromTerms(Terms terms);  // in any order; like terms are added up
  // Parses the text that ToString writes: + - * ( ) integers, names, floordiv(a, b), mod(a, b),
  // min(a, b), max(a, b). a / b, which comments of kernels use, means floordiv(a, b).
  static Result<Expr> Parse(std::string_view text);

  ArrayRef<Term> terms() const { return terms_; }
  std::optional<int64_t> AsConstant() const;    // the number, if there are no atoms
  std::optional<std::string> AsSymbol() const;  // the name, if it is a single symbol
  bool IsConstant(int64_t value) const { return AsConstant() == value; }
  std::string ToString() const;  // "batch*27 + 351", stable
  // Appends the names in order of appearance, without duplicates.
  void CollectSymbols(std::vector<std::string>& names) const;

  Expr operator+(const Expr& other) const;
  Expr operator-(const Expr& other) const;
  Expr operator*(const Expr& other) const;
  Expr operator-() const { return Expr(0) - *this; }
  bool operator==(const Expr& other) const;
  bool operator!=(const Expr& other) const { return !(*this == other); }
  bool operator<(const Expr& other) const;  // an arbitrary but stable order

  // Replaces every symbol by the result of `replace` (nullopt: kept as it is) and simplifies under
  // `ranges`.
  Expr Substitute(function_ref<std::optional<Expr>(const std::string&)> replace,
                  const Ranges& ranges) const;
  // The value of the expression; every symbol must be in `symbols`. Overflow and division by zero
  // are errors.
  Result<int64_t> Evaluate(const std::map<std::string, int64_t>& symbols) const;

 private:
  void Canonicalize();
  Terms terms_;  // sorted by atoms' text, the constant last; no zero coefficients
};

// Dims of a tensor, or coordinates of an element.
using Exprs = SmallVector<Expr, 4>;

// One factor of a term.
struct Atom {
  enum class Kind { kSymbol, kFloorDiv, kMod, kMin, kMax };
  Kind kind = Kind::kSymbol;
  std::string name;  // kSymbol only
  Expr left, right;  // operands of the other kinds
  std::string text;  // canonical text; atoms are compared and sorted by it
};

// Known bounds of symbols. They are inclusive, and may themselves be symbolic (a loop variable runs
// to batch - 1).
class Ranges {
 public:
  struct Bounds {
    Expr low, high;
  };
  void Set(const std::string& symbol, Expr low, Expr high);
  const Bounds* Find(const std::string& symbol) const;

  // Numeric bounds of an expression, by interval arithmetic. Bounds that are unknown or overflow
  // are +-INT64_MAX / 4.
  struct Interval {
    int64_t low, high;
  };
  Interval IntervalOf(const Expr& expr) const;
  // True only if expr >= 0 is proven for all values of the symbols within their bounds; false may
  // mean "unknown".
  bool ProvenNonNegative(const Expr& expr) const;
  bool ProvenLess(const Expr& a, const Expr& b) const { return ProvenNonNegative(b - a - 1); }

 private:
  std::map<std::string, Bounds> bounds_;
};

// FloorDiv rounds toward minus infinity, as Python and ONNX's shape arithmetic do; the result of
// Mod has the sign of the divisor. Divisible terms are moved out of the atom, and the atom is
// replaced by its value where `ranges` prove that it is constant (or, for Mod, that it equals the
// dividend).
Expr FloorDiv(const Expr& dividend, const Expr& divisor, const Ranges& ranges);
Expr Mod(const Expr& dividend, const Expr& divisor, const Ranges& ranges);
Expr Min(const Expr& a, const Expr& b, const Ranges& ranges);
Expr Max(const Expr& a, const Expr& b, const Ranges& ranges);
Expr CeilDiv(const Expr& dividend, const Expr& divisor, const Ranges& ranges);
// For non-negative numbers.
inline int64_t CeilDiv(int64_t dividend, int64_t divisor) {
  return (dividend + divisor - 1) / divisor;
}
Expr Product(ArrayRef<Expr> factors);
// Whether every term of `expr` is a multiple of `divisor`, whatever its symbols are.
bool IsMultiple(const Expr& expr, int64_t divisor);

// Undoes delinearization: c*k*floordiv(e, k) + c*mod(e, k) becomes c*e.
Expr SimplifySum(const Expr& expr, const Ranges& ranges);

// Linearize gives the linear position of `index` in a row-major tensor of `shape`; Delinearize is
// its inverse.
Expr Linearize(ArrayRef<Expr> index, ArrayRef<Expr> shape, const Ranges& ranges);
Exprs Delinearize(const Expr& position, ArrayRef<Expr> shape, const Ranges& ranges);

}  // namespace fusec
