#include "compiler/import/cell_match.h"

#include <algorithm>

namespace fusec {

namespace {

using Kind = CellFactor::Kind;

const CellKind& KindOf(Cell cell) {
  return *std::find_if(CellKinds().begin(), CellKinds().end(),
                       [&](const CellKind& known) { return known.cell == cell; });
}

class Matcher {
 public:
  Matcher(const CellAlgebra& algebra, const std::vector<Polynomial>& next)
      : algebra_(algebra), next_(next) {}

  std::optional<MatchedCell> Match() {
    if (next_.size() == 1) {
      if (auto cell = Rnn()) return cell;
      return Gru();
    }
    if (next_.size() != 2) return std::nullopt;
    if (auto cell = Lstm(0, 1)) return cell;
    return Lstm(1, 0);
  }

 private:
  const CellFactor& At(int number) const { return algebra_.atom(number); }
  bool IsActivation(int number) const { return At(number).kind == Kind::kActivation; }
  bool AreSame(int activation, int other) const {
    const CellFactor &a = At(activation), &b = At(other);
    return a.activation == b.activation && a.alpha == b.alpha && a.beta == b.beta;
  }
  void AddActivations(MatchedCell& cell, std::initializer_list<int> numbers) const {
    for (const int number : numbers) {
      cell.activations += (cell.activations.empty() ? "" : " ") + At(number).activation;
      cell.alphas.push_back(At(number).alpha);
      cell.betas.push_back(At(number).beta);
    }
  }

  static void AddTerm(std::vector<GateTerm>& terms, const CellFactor& atom, double factor) {
    terms.push_back({atom.value, atom.block, atom.kind == Kind::kInvariant, factor});
  }

  // Adds a term of degree 1 to a gate's sum; `left` is the left factor that a product must have.
  bool AddLinear(GateSum& sum, int number, double factor, const Polynomial& left) const {
    const CellFactor& atom = At(number);
    if (atom.kind == Kind::kStep || atom.kind == Kind::kInvariant) {
      AddTerm(sum.terms, atom, factor);
      return true;
    }
    if (atom.kind != Kind::kProduct || sum.product || !(*atom.argument == left)) return false;
    sum.product = atom.node;
    sum.product_block = atom.block;
    sum.product_factor = factor;
    return true;
  }

  // A sum of terms of degree 1.
  std::optional<GateSum> Linear(const Polynomial& p, const Polynomial& left) const {
    GateSum sum;
    for (const auto& [monomial, factor] : p.terms) {
      if (monomial.empty()) {
        sum.number = factor;
      } else if (monomial.size() > 1 || !AddLinear(sum, monomial[0], factor, left)) {
        return std::nullopt;
      }
    }
    return sum;
  }
  std::optional<GateSum> ArgumentOf(int activation, const Polynomial& left) const {
    return Linear(*At(activation).argument, left);
  }

  static Polynomial State(int state) {
    Polynomial p;
    p.terms[{state}] = 1;
    return p;
  }

  std::optional<MatchedCell> Rnn() const {
    const auto activation = next_[0].Single();
    const bool is_linear = !activation || !IsActivation(*activation);
    const auto sum = is_linear ? Linear(next_[0], State(0)) : ArgumentOf(*activation, State(0));
    if (!sum || !sum->product) return std::nullopt;
    MatchedCell cell{&KindOf(Cell::kRnn)};
    cell.gates = {*sum};
    if (is_linear) {
      cell.activations = "Affine";
      cell.alphas = {1};
      cell.betas = {0};
    } else {
      AddActivations(cell, {*activation});
    }
    return cell;
  }

  // The other factor of a monomial that has two, one of which is `factor`.
  static std::optional<int> Other(const Monomial& monomial, int factor) {
    if (monomial.size() != 2) return std::nullopt;
    if (monomial[0] == factor) return monomial[1];
    return monomial[1] == factor ? std::optional(monomial[0]) : std::nullopt;
  }

  // n + z h - z n, or h + z n - z h, whose update gate is 1 - z; or n alone, whose update gate is
  // 0.
  std::optional<MatchedCell> Gru() const {
    if (const auto candidate = next_[0].Single()) return WithoutUpdate(*candidate);
    if (next_[0].terms.size() != 3) return std::nullopt;
    const int state = 0;
    int alone = -1, plus = -1, minus = -1;  // the one of degree 1; the factors of the others
    std::optional<int> gate;
    for (const auto& [monomial, factor] : next_[0].terms) {
      if (monomial.size() == 1 && factor == 1) alone = monomial[0];
      if (const auto other = Other(monomial, state)) gate = other;
    }
    if (alone < 0 || !gate || !IsActivation(*gate)) return std::nullopt;
    for (const auto& [monomial, factor] : next_[0].terms) {
      const auto other = Other(monomial, *gate);
      if (other && factor == 1) plus = *other;
      if (other && factor == -1) minus = *other;
    }
    const bool negated = alone == state;
    const int candidate = negated ? plus : alone;
    if (minus != alone || plus < 0 || candidate < 0 || (negated ? state : plus) != state ||
        !IsActivation(candidate))
      return std::nullopt;
    // sigmoid(-x) = 1 - sigmoid(x)
    if (negated && At(*gate).activation != "Sigmoid") return std::nullopt;
    auto update = ArgumentOf(*gate, State(0));
    if (!update) return std::nullopt;
    if (negated) Negate(*update);
    MatchedCell cell{&KindOf(Cell::kGru)};
    AddActivations(cell, {*gate, candidate});
    cell.gates = {*update, {}, {}};
    std::optional<int> reset;
    if (!AddCandidate(cell, candidate, reset) || !AreSame(*reset, *gate)) return std::nullopt;
    return cell;
  }

  std::optional<MatchedCell> WithoutUpdate(int candidate) const {
    if (!IsActivation(candidate)) return std::nullopt;
    MatchedCell cell{&KindOf(Cell::kGru)};
    GateSum update;
    update.number = -1000;  // sigmoid(-1000) is 0
    cell.gates = {update, {}, {}};
    std::optional<int> reset;
    if (!AddCandidate(cell, candidate, reset) || At(*reset).activation != "Sigmoid")
      return std::nullopt;
    AddActivations(cell, {*reset, candidate});
    return cell;
  }

  static void Negate(GateSum& sum) {
    for (GateTerm& term : sum.terms) term.factor = -term.factor;
    sum.number = -sum.number;
    sum.product_factor = -sum.product_factor;
  }

  // The candidate's sum: linear with a product of r h, or linear and r (product of h + bias).
  // Sets the activation `reset`.
  bool AddCandidate(MatchedCell& cell, int candidate, std::optional<int>& reset) const {
    GateSum& sum = cell.gates[2];
    const int state = 0;
    const auto set_reset = [&](int number) {
      if (reset && *reset != number) return false;
      reset = number;
      return IsActivation(number);
    };
    for (const auto& [monomial, factor] : At(candidate).argument->terms) {
      if (monomial.empty()) {
        sum.number = factor;
      } else if (monomial.size() == 2) {
        const bool first = At(monomial[0]).kind == Kind::kActivation;
        if (!set_reset(monomial[first ? 0 : 1])) return false;
        const int other = monomial[first ? 1 : 0];
        cell.linear_before_reset = true;
        if (At(other).kind == Kind::kInvariant) {
          AddTerm(cell.reset_bias, At(other), factor);
        } else if (At(other).kind != Kind::kProduct || !AddLinear(sum, other, factor, State(0))) {
          return false;
        }
      } else if (monomial.size() == 1 && At(monomial[0]).kind == Kind::kProduct) {
        const Polynomial& left = *At(monomial[0]).argument;
        if (left.terms.size() != 1 || left.terms.begin()->second != 1) return false;
        const auto other = Other(left.terms.begin()->first, state);
        if (!other || !set_reset(*other) || !AddLinear(sum, monomial[0], factor, left))
          return false;
      } else if (monomial.size() > 2 || !AddLinear(sum, monomial[0], factor, State(0))) {
        return false;
      }
    }
    if (!reset || !sum.product || (cell.linear_before_reset && sum.product_factor != 1))
      return false;
    const auto reset_sum = ArgumentOf(*reset, State(0));
    if (!reset_sum) return false;
    cell.gates[1] = *reset_sum;
    return true;
  }

  // C = f c + i g, H = o h(C)
  std::optional<MatchedCell> Lstm(int state, int memory) const {
    if (next_[memory].terms.size() != 2 || next_[state].terms.size() != 1) return std::nullopt;
    const int before = memory;
    std::optional<int> forget;
    Monomial added;
    for (const auto& [monomial, factor] : next_[memory].terms) {
      if (monomial.size() != 2 || factor != 1) return std::nullopt;
      if (const auto other = Other(monomial, before)) {
        forget = other;
      } else {
        added = monomial;
      }
    }
    const auto& [shown, shown_factor] = *next_[state].terms.begin();
    if (!forget || added.empty() || shown.size() != 2 || shown_factor != 1) return std::nullopt;
    const auto shows_cell = [&](int number) {
      return IsActivation(number) && *At(number).argument == next_[memory];
    };
    const int output = shows_cell(shown[0]) ? shown[1] : shown[0];
    const int of_cell = shows_cell(shown[0]) ? shown[0] : shown[1];
    for (const int gate : {*forget, added[0], added[1], output, of_cell}) {
      if (!IsActivation(gate)) return std::nullopt;
    }
    if (!shows_cell(of_cell)) return std::nullopt;
    const bool first_is_input = AreSame(added[0], *forget);
    const int input = added[first_is_input ? 0 : 1], candidate = added[first_is_input ? 1 : 0];
    if (!AreSame(input, *forget) || !AreSame(output, *forget)) return std::nullopt;
    MatchedCell cell{&KindOf(Cell::kLstm)};
    AddActivations(cell, {*forget, candidate, of_cell});
    cell.state = state;
    cell.cell = memory;
    for (const int gate : {input, output, *forget, candidate}) {
      const auto sum = ArgumentOf(gate, State(state));
      if (!sum) return std::nullopt;
      cell.gates.push_back(*sum);
    }
    return cell;
  }

  const CellAlgebra& algebra_;
  const std::vector<Polynomial>& next_;
};

}  // namespace

std::optional<MatchedCell> MatchCell(const CellAlgebra& algebra,
                                     const std::vector<Polynomial>& next) {
  return Matcher(algebra, next).Match();
}

}  // namespace fusec
