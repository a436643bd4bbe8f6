#include "compiler/import/cell_algebra.h"

#include <algorithm>
#include <cmath>

namespace fusec {

namespace {

constexpr size_t kMostTerms = 64;
constexpr size_t kMostFactors = 8;  // of a monomial
constexpr double kRounding = 1e-6;  // of f32 constants: 6 times the f32 number 1/6 is 1

double Snapped(double factor) {
  return std::fabs(std::fabs(factor) - 1) < kRounding ? std::copysign(1, factor) : factor;
}

bool SameFactor(const CellFactor& a, const CellFactor& b) {
  const bool same_argument =
      a.argument == b.argument || (a.argument && b.argument && *a.argument == *b.argument);
  return a.kind == b.kind && a.value == b.value && a.node == b.node && a.block == b.block &&
         a.activation == b.activation && a.alpha == b.alpha && a.beta == b.beta && same_argument;
}

void Accumulate(Polynomial& sum, const Monomial& monomial, double factor) {
  const auto [place, is_new] = sum.terms.emplace(monomial, factor);
  if (is_new) return;
  place->second += factor;
  if (place->second == 0) sum.terms.erase(place);
}

}  // namespace

std::optional<double> Polynomial::Number() const {
  if (terms.empty()) return 0;
  const auto& [monomial, factor] = *terms.begin();
  return terms.size() == 1 && monomial.empty() ? std::optional(factor) : std::nullopt;
}

std::optional<int> Polynomial::Single() const {
  if (terms.size() != 1) return std::nullopt;
  const auto& [monomial, factor] = *terms.begin();
  return monomial.size() == 1 && factor == 1 ? std::optional(monomial[0]) : std::nullopt;
}

Polynomial Constant(double number) {
  Polynomial constant;
  if (number != 0) constant.terms[{}] = number;
  return constant;
}

int CellAlgebra::NumberOf(const CellFactor& atom) {
  const auto found = std::find_if(atoms_.begin(), atoms_.end(),
                                  [&](const CellFactor& known) { return SameFactor(known, atom); });
  if (found != atoms_.end()) return static_cast<int>(found - atoms_.begin());
  atoms_.push_back(atom);
  return static_cast<int>(atoms_.size()) - 1;
}

Polynomial CellAlgebra::Variable(const CellFactor& atom) {
  Polynomial variable;
  variable.terms[{NumberOf(atom)}] = 1;
  return variable;
}

Polynomial CellAlgebra::Add(const Polynomial& a, const Polynomial& b, double factor) {
  Polynomial sum = a;
  for (const auto& [monomial, of_term] : b.terms) Accumulate(sum, monomial, factor * of_term);
  return sum;
}

std::optional<Polynomial> CellAlgebra::Multiply(const Polynomial& a, const Polynomial& b) const {
  if (a.terms.size() * b.terms.size() > kMostTerms) return std::nullopt;
  Polynomial product;
  for (const auto& [left, left_factor] : a.terms) {
    for (const auto& [right, right_factor] : b.terms) {
      Monomial both = left;
      for (const int factor : right) {
        // A mask is 0 or 1, so that its square is the mask.
        const bool repeats = atoms_[factor].kind == CellFactor::Kind::kMask &&
                             std::find(both.begin(), both.end(), factor) != both.end();
        if (!repeats) both.insert(std::upper_bound(both.begin(), both.end(), factor), factor);
      }
      if (both.size() > kMostFactors) return std::nullopt;
      Accumulate(product, both, Snapped(left_factor * right_factor));
    }
  }
  return product;
}

std::vector<int> CellAlgebra::MasksIn(const Polynomial& p) const {
  std::vector<int> masks;
  for (const auto& [monomial, factor] : p.terms) {
    for (const int number : monomial) {
      const bool is_new = std::find(masks.begin(), masks.end(), number) == masks.end();
      if (atoms_[number].kind == CellFactor::Kind::kMask && is_new) masks.push_back(number);
    }
  }
  return masks;
}

Polynomial CellAlgebra::Where(const Polynomial& p, int atom, bool is_set) {
  Polynomial result;
  for (const auto& [monomial, factor] : p.terms) {
    Monomial rest = monomial;
    const auto at = std::find(rest.begin(), rest.end(), atom);
    if (at != rest.end()) {
      if (!is_set) continue;
      rest.erase(at);
    }
    Accumulate(result, rest, factor);
  }
  return result;
}

}  // namespace fusec
