#include "compiler/index/expr.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "compiler/index/expr_internal.h"

namespace fusec {

using index_internal::CompareAtoms;
using index_internal::FromAtom;

namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

int64_t Saturate(__int128 value) {
  return static_cast<int64_t>(std::clamp<__int128>(value, kMin, kMax));
}
int64_t SaturatingAdd(int64_t a, int64_t b) { return Saturate(static_cast<__int128>(a) + b); }
int64_t SaturatingMultiply(int64_t a, int64_t b) { return Saturate(static_cast<__int128>(a) * b); }

bool TermBefore(const Expr::Term& a, const Expr::Term& b) {
  return CompareAtoms(a.atoms, b.atoms) < 0;
}

bool AtomBefore(const AtomRef& a, const AtomRef& b) { return a != b && a->text < b->text; }

Expr::Term Multiply(const Expr::Term& a, const Expr::Term& b) {
  Expr::Term product{SaturatingMultiply(a.coefficient, b.coefficient), {}};
  product.atoms.reserve(a.atoms.size() + b.atoms.size());
  std::merge(a.atoms.begin(), a.atoms.end(), b.atoms.begin(), b.atoms.end(),
             std::back_inserter(product.atoms), AtomBefore);
  return product;
}

// False for a zero term, which is dropped. Only a constant term may be kMin: in the text of any
// other term the magnitude follows a separate sign, and 2^63 does not fit.
bool FitTerm(Expr::Term& term) {
  if (term.coefficient == kMin && !term.atoms.empty()) term.coefficient = -kMax;
  return term.coefficient != 0;
}

void Collect(const Expr& expr, std::vector<std::string>& names) {
  for (const Expr::Term& term : expr.terms()) {
    for (const AtomRef& atom : term.atoms) {
      if (atom->kind == Atom::Kind::kSymbol) {
        if (std::find(names.begin(), names.end(), atom->name) == names.end()) {
          names.push_back(atom->name);
        }
      } else {
        Collect(atom->left, names);
        Collect(atom->right, names);
      }
    }
  }
}

}  // namespace

namespace index_internal {

AtomRef MakeAtom(Atom::Kind kind, Expr left, Expr right) {
  static constexpr const char* kNames[] = {"", "floordiv", "mod", "min", "max"};
  std::string text = kNames[static_cast<int>(kind)];
  text += '(';
  text += left.ToString();
  text += ", ";
  text += right.ToString();
  text += ')';
  return std::make_shared<const Atom>(
      Atom{kind, "", std::move(left), std::move(right), std::move(text)});
}

int CompareAtoms(ArrayRef<AtomRef> a, ArrayRef<AtomRef> b) {
  if (a.empty() || b.empty()) return static_cast<int>(a.empty()) - static_cast<int>(b.empty());
  const size_t shared = std::min(a.size(), b.size());
  for (size_t i = 0; i < shared; ++i) {
    if (a[i] == b[i]) continue;
    if (const int order = a[i]->text.compare(b[i]->text); order != 0) return order;
  }
  return a.size() == b.size() ? 0 : (a.size() < b.size() ? -1 : 1);
}

Expr::Term WithoutAtom(const Expr::Term& term, size_t position) {
  Expr::Term rest = term;
  rest.atoms.erase(rest.atoms.begin() + static_cast<std::ptrdiff_t>(position));
  return rest;
}

}  // namespace index_internal

Expr::Expr(int64_t constant) {
  if (constant != 0) terms_.push_back(Term{constant, {}});
}

Expr Expr::Symbol(std::string name) {
  std::string text = name;
  return FromAtom(std::make_shared<const Atom>(
      Atom{Atom::Kind::kSymbol, std::move(name), Expr(), Expr(), std::move(text)}));
}

Expr Expr::FromTerms(Expr::Terms terms) {
  Expr expr;
  expr.terms_ = std::move(terms);
  expr.Canonicalize();
  return expr;
}

void Expr::Canonicalize() {
  if (!std::is_sorted(terms_.begin(), terms_.end(), TermBefore)) {
    std::stable_sort(terms_.begin(), terms_.end(), TermBefore);
  }
  size_t kept = 0;
  for (size_t i = 0; i < terms_.size();) {
    Term term = std::move(terms_[i]);
    size_t next = i + 1;
    for (; next < terms_.size() && CompareAtoms(term.atoms, terms_[next].atoms) == 0; ++next) {
      term.coefficient = SaturatingAdd(term.coefficient, terms_[next].coefficient);
    }
    i = next;
    if (FitTerm(term)) terms_[kept++] = std::move(term);
  }
  terms_.resize(kept);
}

std::optional<int64_t> Expr::AsConstant() const {
  if (terms_.empty()) return 0;
  if (terms_.size() == 1 && terms_[0].atoms.empty()) return terms_[0].coefficient;
  return std::nullopt;
}

std::optional<std::string> Expr::AsSymbol() const {
  if (terms_.size() != 1 || terms_[0].coefficient != 1 || terms_[0].atoms.size() != 1 ||
      terms_[0].atoms[0]->kind != Atom::Kind::kSymbol) {
    return std::nullopt;
  }
  return terms_[0].atoms[0]->name;
}

std::string Expr::ToString() const {
  if (terms_.empty()) return "0";
  std::string text;
  for (const Term& term : terms_) {
    const bool negative = term.coefficient < 0;
    if (&term == &terms_[0]) {
      if (negative) text += '-';
    } else {
      text += negative ? " - " : " + ";
    }
    for (const AtomRef& atom : term.atoms) {
      if (&atom != &term.atoms[0]) text += '*';
      text += atom->text;
    }
    uint64_t magnitude = static_cast<uint64_t>(term.coefficient);
    if (negative) magnitude = 0 - magnitude;
    if (term.atoms.empty()) {
      text += std::to_string(magnitude);
    } else if (magnitude != 1) {
      text += '*';
      text += std::to_string(magnitude);
    }
  }
  return text;
}

void Expr::CollectSymbols(std::vector<std::string>& names) const { Collect(*this, names); }

Expr Expr::operator+(const Expr& other) const {
  if (other.terms_.empty()) return *this;
  if (terms_.empty()) return other;
  Expr sum;
  sum.terms_.reserve(terms_.size() + other.terms_.size());
  auto a = terms_.begin(), b = other.terms_.begin();
  while (a != terms_.end() && b != other.terms_.end()) {
    const int order = CompareAtoms(a->atoms, b->atoms);
    if (order != 0) {
      sum.terms_.push_back(order < 0 ? *a++ : *b++);
      continue;
    }
    Term term{SaturatingAdd(a->coefficient, b->coefficient), a->atoms};
    if (FitTerm(term)) sum.terms_.push_back(std::move(term));
    ++a, ++b;
  }
  sum.terms_.insert(sum.terms_.end(), a, terms_.end());
  sum.terms_.insert(sum.terms_.end(), b, other.terms_.end());
  return sum;
}

Expr Expr::operator-(const Expr& other) const { return *this + other * Expr(-1); }

Expr Expr::operator*(const Expr& other) const {
  if (terms_.empty() || other.terms_.empty()) return Expr();
  if (other.IsConstant(1)) return *this;
  if (IsConstant(1)) return other;
  if (!other.AsConstant() && AsConstant()) return other * *this;
  Expr product;
  if (const std::optional<int64_t> factor = other.AsConstant()) {
    product.terms_ = terms_;  // the order of the terms stays
    for (Term& term : product.terms_) {
      term.coefficient = SaturatingMultiply(term.coefficient, *factor);
      FitTerm(term);
    }
    return product;
  }
  product.terms_.reserve(terms_.size() * other.terms_.size());
  for (const Term& a : terms_) {
    for (const Term& b : other.terms_) product.terms_.push_back(Multiply(a, b));
  }
  product.Canonicalize();
  return product;
}

bool Expr::operator==(const Expr& other) const {
  if (terms_.size() != other.terms_.size()) return false;
  for (size_t i = 0; i < terms_.size(); ++i) {
    if (terms_[i].coefficient != other.terms_[i].coefficient ||
        CompareAtoms(terms_[i].atoms, other.terms_[i].atoms) != 0) {
      return false;
    }
  }
  return true;
}

bool Expr::operator<(const Expr& other) const {
  const size_t shared = std::min(terms_.size(), other.terms_.size());
  for (size_t i = 0; i < shared; ++i) {
    const Term &a = terms_[i], &b = other.terms_[i];
    if (const int order = CompareAtoms(a.atoms, b.atoms); order != 0) return order < 0;
    if (a.coefficient != b.coefficient) return a.coefficient < b.coefficient;
  }
  return terms_.size() < other.terms_.size();
}

}  // namespace fusec
