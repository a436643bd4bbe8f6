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

// A symbolic integer: a sum of terms, each an integer times a product of atoms. An atom is a symbol ("batch", a loop variable) or
// a floordiv, mod, min or max of two expressions. Immutable and canonical: equal expressions have equal text. One class serves as
// dimension of a tensor, as index into a buffer and as launch size, so that "how big" and "where" are simplified by the same rules.
// Coefficients saturate at the limits of int64_t instead of wrapping, so that a comparison never changes its sign.
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
  static Expr FromTerms(Terms terms);  // in any order; repeats are added up
  // Reads the text that ToString writes: + - * ( ) integers, names, floordiv(a, b), mod(a, b), min(a, b), max(a, b).
  // a / b is floordiv(a, b), as the comments of kernels write it.
  static Result<Expr> Parse(std::string_view text);

  ArrayRef<Term> terms() const { return terms_; }
  std::optional<int64_t> AsConstant() const;      // the number, if no symbol is left
  std::optional<std::string> AsSymbol() const;    // the name, if it is just one symbol
  bool IsConstant(int64_t value) const { return AsConstant() == value; }
  std::string ToString() const;                   // "batch*27 + 351", stable
  void CollectSymbols(std::vector<std::string>& names) const;  // in order of appearance, without repeats

  Expr operator+(const Expr& other) const;
  Expr operator-(const Expr& other) const;
  Expr operator*(const Expr& other) const;
  Expr operator-() const { return Expr(0) - *this; }
  bool operator==(const Expr& other) const;
  bool operator!=(const Expr& other) const { return !(*this == other); }
  bool operator<(const Expr& other) const;  // an arbitrary but stable order

  // The expression with every symbol replaced by what `replace` says (nullopt: kept), simplified under `ranges`.
  Expr Substitute(function_ref<std::optional<Expr>(const std::string&)> replace,
                  const Ranges& ranges) const;
  // Its value; every symbol must be in `symbols`. Overflow and division by zero give an error.
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
  Expr left, right;  // the operands of all other kinds
  std::string text;  // canonical text, by which atoms are compared and sorted
};

// The known bounds of symbols. They are inclusive, and may themselves be symbolic (a loop variable runs to batch - 1).
class Ranges {
 public:
  struct Bounds {
    Expr low, high;
  };
  void Set(const std::string& symbol, Expr low, Expr high);
  const Bounds* Find(const std::string& symbol) const;

  // Numeric bounds of an expression, if all symbols in it are bounded; saturates instead of overflowing.
  struct Interval {
    int64_t low, high;
  };
  Interval IntervalOf(const Expr& expr) const;
  // True only if it holds for every value of the symbols.
  bool ProvenNonNegative(const Expr& expr) const;
  bool ProvenLess(const Expr& a, const Expr& b) const { return ProvenNonNegative(b - a - 1); }

 private:
  std::map<std::string, Bounds> bounds_;
};

// FloorDiv rounds toward minus infinity, as Python and ONNX's shape arithmetic do; Mod has the sign of the divisor. Divisible terms are
// moved out of the atom, and the atom disappears where `ranges` prove that it is zero (or, for Mod, that it is the dividend).
Expr FloorDiv(const Expr& dividend, const Expr& divisor, const Ranges& ranges);
Expr Mod(const Expr& dividend, const Expr& divisor, const Ranges& ranges);
Expr Min(const Expr& a, const Expr& b, const Ranges& ranges);
Expr Max(const Expr& a, const Expr& b, const Ranges& ranges);
Expr CeilDiv(const Expr& dividend, const Expr& divisor, const Ranges& ranges);
// For numbers that are not negative.
inline int64_t CeilDiv(int64_t dividend, int64_t divisor) {
  return (dividend + divisor - 1) / divisor;
}
Expr Product(ArrayRef<Expr> factors);
// Whether every term of `expr` is a multiple of `divisor`, whatever its symbols are.
bool IsMultiple(const Expr& expr, int64_t divisor);

// Undoes delinearisation: c*k*floordiv(e, k) + c*mod(e, k) becomes c*e.
Expr SimplifySum(const Expr& expr, const Ranges& ranges);

// The position of `index` in a row-major tensor of `shape`, and back.
Expr Linearize(ArrayRef<Expr> index, ArrayRef<Expr> shape, const Ranges& ranges);
Exprs Delinearize(const Expr& position, ArrayRef<Expr> shape, const Ranges& ranges);

}  // namespace fusec
