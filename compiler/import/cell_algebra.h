#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// The step of a recurrent cell as polynomials, so that the ways of writing a cell that differ only
// in the order and grouping of sums and products become equal: (1 - z) * n + z * h and
// n + z * (h - n) are both n - z n + z h.

struct Polynomial;

// A variable of the polynomials: the columns [block * units, (block + 1) * units) of a tensor of
// one step, or one column that all units share.
struct CellFactor {
  enum class Kind {
    kState,       // of state number `block`, before the step
    kStep,        // of `value`, which depends on the step but on no state
    kInvariant,   // of `value`, which is the same at all steps
    kMask,        // of the booleans `value`, which depend on the step: 0 or 1
    kProduct,     // of the product `node`, whose left factor is `argument` and right one invariant
    kActivation,  // the function `activation` of `argument`
  };
  Kind kind = Kind::kStep;
  Value* value = nullptr;
  const Node* node = nullptr;
  int64_t block = 0;
  std::string activation;  // of recurrence.h, with its parameters
  double alpha = 0, beta = 0;
  std::shared_ptr<const Polynomial> argument;
};

// The factors of a product of atoms, by their numbers, in ascending order.
using Monomial = std::vector<int>;

struct Polynomial {
  std::map<Monomial, double> terms;  // without zeros

  bool operator==(const Polynomial&) const = default;
  bool IsZero() const { return terms.empty(); }
  // The number, if there are no atoms.
  std::optional<double> Number() const;
  // The atom, if it is the whole polynomial.
  std::optional<int> Single() const;
};

Polynomial Constant(double number);

// The atoms of one cell. Equal atoms have the same number.
class CellAlgebra {
 public:
  int atom_count() const { return static_cast<int>(atoms_.size()); }
  const CellFactor& atom(int number) const { return atoms_[number]; }

  int NumberOf(const CellFactor& atom);
  Polynomial Variable(const CellFactor& atom);
  static Polynomial Add(const Polynomial& a, const Polynomial& b, double factor = 1);
  // nullopt if the product has too many terms or factors.
  std::optional<Polynomial> Multiply(const Polynomial& a, const Polynomial& b) const;
  // The masks in `p` outside of the arguments of other atoms.
  std::vector<int> MasksIn(const Polynomial& p) const;
  // `p` where the mask `atom` is 0 or 1.
  static Polynomial Where(const Polynomial& p, int atom, bool is_set);

 private:
  std::vector<CellFactor> atoms_;
};

}  // namespace fusec
