// Writes what the index simplifier claims about random expressions as SMT-LIB: that an expression equals the one from which it was
// simplified, that it is never negative, or that it lies in an interval, each for all values of symbols in their ranges. prove.py lets Z3
// look for a counterexample. The two sides are built independently: the simplified one by the functions of compiler/index, the other one as
// text, from the same random choices.
//
// usage: index_claims FIRST_SEED COUNT      a claim is one line: {"seed", "claim", "ranges": [SMT],
// "text", "smt"}
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>

#include "compiler/index/expr.h"

namespace fusec {
namespace {

// An expression as the simplifier has it, and without any simplification.
struct Twin {
  Expr expr;
  std::string plain;
};

std::string Smt(const Expr& expr);

std::string Number(int64_t value) {
  if (value >= 0) return std::to_string(value);
  return "(- " + std::to_string(0 - static_cast<uint64_t>(value)) + ")";
}

std::string Smt(const Atom& atom) {
  switch (atom.kind) {
    case Atom::Kind::kSymbol:
      return atom.name;
    case Atom::Kind::kFloorDiv:
      return "(floordiv " + Smt(atom.left) + " " + Smt(atom.right) + ")";
    case Atom::Kind::kMod:
      return "(floormod " + Smt(atom.left) + " " + Smt(atom.right) + ")";
    case Atom::Kind::kMin:
      return "(least " + Smt(atom.left) + " " + Smt(atom.right) + ")";
    case Atom::Kind::kMax:
      return "(most " + Smt(atom.left) + " " + Smt(atom.right) + ")";
  }
  return "";
}

std::string Smt(const Expr& expr) {
  std::string sum = "(+ 0 0";
  for (const Expr::Term& term : expr.terms()) {
    sum += " (* " + Number(term.coefficient);
    for (const AtomRef& atom : term.atoms) sum += " " + Smt(*atom);
    sum += " 1)";
  }
  return sum + ")";
}

class Claims {
 public:
  explicit Claims(uint64_t seed) : seed_(seed), random_(seed) {
    Set("n", 1, Pick(1, 9));
    Set("m", Pick(0, 1), Pick(2, 6));
    Set("c", Pick(-6, 0), Pick(0, 7));
    Set("i", 0, Expr::Symbol("n") - 1);
    Set("j", 0, Expr::Symbol("n") * 4 - 1);
  }

  void Print() {
    const Twin twin = Any(3);
    Say("equal", twin, "(= " + twin.plain + " " + Smt(twin.expr) + ")");
    const Expr sum = SimplifySum(twin.expr, ranges_);
    Say("equal sum", twin, "(= " + twin.plain + " " + Smt(sum) + ")");
    if (ranges_.ProvenNonNegative(twin.expr))
      Say("not negative", twin, "(>= " + twin.plain + " 0)");
    const Twin other = Any(2);
    if (ranges_.ProvenLess(twin.expr, other.expr))
      Say("less", twin, "(< " + twin.plain + " " + other.plain + ")");
    const Ranges::Interval interval = ranges_.IntervalOf(twin.expr);
    constexpr int64_t kKnown = int64_t{1} << 40;  // larger bounds count as unknown, or do not fit
    if (interval.low > -kKnown)
      Say("not below", twin, "(>= " + twin.plain + " " + Number(interval.low) + ")");
    if (interval.high < kKnown)
      Say("not above", twin, "(<= " + twin.plain + " " + Number(interval.high) + ")");
  }

 private:
  int64_t Pick(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }

  void Set(const std::string& name, const Expr& low, const Expr& high) {
    ranges_.Set(name, low, high);
    bounds_.push_back("(<= " + Smt(low) + " " + name + ")");
    bounds_.push_back("(<= " + name + " " + Smt(high) + ")");
    names_.push_back(name);
  }

  Twin Any(int depth) {
    const int64_t kind = depth == 0 ? Pick(0, 1) : Pick(1, 10);
    if (kind == 0) {
      const int64_t value = Pick(-5, 8);
      return {value, Number(value)};
    }
    if (kind == 1) {
      const std::string name = names_[Pick(0, static_cast<int64_t>(names_.size()) - 1)];
      return {Expr::Symbol(name), name};
    }
    const Twin a = Any(depth - 1), b = Any(kind > 5 ? static_cast<int>(Pick(0, 1)) : depth - 1);
    const auto plain = [&](const char* op) {
      return "(" + std::string(op) + " " + a.plain + " " + b.plain + ")";
    };
    switch (kind) {
      case 2:
        return {a.expr + b.expr, plain("+")};
      case 3:
        return {a.expr - b.expr, plain("-")};
      case 4:
        return {Min(a.expr, b.expr, ranges_), plain("least")};
      case 5:
        return {Max(a.expr, b.expr, ranges_), plain("most")};
      case 6:
        return {a.expr * b.expr, plain("*")};
      default:
        break;
    }
    // Divisors are known not to be 0, where alone a quotient means something.
    const int64_t factor = Pick(1, 6);
    const bool symbolic = Pick(0, 2) == 0;
    const Expr divisor = symbolic ? Expr::Symbol("n") * factor : Expr(factor);
    const std::string text = symbolic ? "(* n " + Number(factor) + ")" : Number(factor);
    if (kind <= 8)
      return {FloorDiv(a.expr, divisor, ranges_), "(floordiv " + a.plain + " " + text + ")"};
    return {Mod(a.expr, divisor, ranges_), "(floormod " + a.plain + " " + text + ")"};
  }

  void Say(const char* claim, const Twin& twin, const std::string& smt) const {
    const nlohmann::json line = {{"seed", seed_},
                                 {"claim", claim},
                                 {"symbols", names_},
                                 {"ranges", bounds_},
                                 {"text", twin.expr.ToString()},
                                 {"smt", smt}};
    std::puts(line.dump().c_str());
  }

  const uint64_t seed_;
  std::mt19937_64 random_;
  Ranges ranges_;
  std::vector<std::string> bounds_, names_;
};

}  // namespace
}  // namespace fusec

int main(int count, char** words) {
  if (count != 3) {
    std::fputs("usage: index_claims FIRST_SEED COUNT\n", stderr);
    return 2;
  }
  const uint64_t first = std::strtoull(words[1], nullptr, 10),
                 many = std::strtoull(words[2], nullptr, 10);
  for (uint64_t seed = first; seed < first + many; ++seed) fusec::Claims(seed).Print();
  return 0;
}
