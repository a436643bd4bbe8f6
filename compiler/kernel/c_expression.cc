#include "compiler/kernel/c_expression.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <tuple>

namespace fusec {

std::string PascalCase(const std::string& name) {
  std::string out;
  bool start = true;
  for (char c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) {
      start = true;
      continue;
    }
    out += start ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    start = false;
  }
  return out;
}

std::string CExpressionWriter::NewName(const std::string& hint) {
  const std::string name = "k" + PascalCase(hint);
  const int repeat = ++taken_[name];
  return repeat == 1 ? name : name + "_" + std::to_string(repeat);
}

void CExpressionWriter::NameConstant(int64_t value, const std::string& hint,
                                     const std::string& comment) {
  if ((value >= 0 && value <= 2) || names_.count(value)) return;
  names_[value] = NewName(hint);
  const bool wide = value > INT32_MAX || value < INT32_MIN;
  constants_.push_back({wide ? "long long" : "int", names_[value], std::to_string(value), comment});
}

void CExpressionWriter::NameOffset(int64_t value, const std::string& hint,
                                   const std::string& comment) {
  if (value <= 2 || value > INT32_MAX || offsets_.count(value)) return;
  offsets_[value] = NewName(hint);
  constants_.push_back({"int", offsets_[value], std::to_string(value), comment});
}

std::string CExpressionWriter::TypedConstant(const std::string& type, const std::string& hint,
                                             const std::string& value, const std::string& comment) {
  auto found = own_.find({hint, value});
  if (found == own_.end()) {
    const std::string name = NewName(hint);
    constants_.push_back({type, name, value, comment});
    found = own_.emplace(std::pair{hint, value}, name).first;
  }
  return found->second;
}

const std::string& CExpressionWriter::OwnConstant(const std::string& hint, int64_t value,
                                                  const std::string& comment) {
  TypedConstant("int", hint, std::to_string(value), comment);
  return own_.at({hint, std::to_string(value)});
}

std::string CExpressionWriter::WriteConstant(int64_t value) {
  if (value >= 0 && value <= 2) return std::to_string(value);
  if (value == INT64_MIN) return "(-9223372036854775807LL - 1)";  // C has no literal for it
  if (auto found = names_.find(value); found != names_.end()) return found->second;
  if (value < 0) return "-" + WriteConstant(-value);
  if (auto suggested = suggestions_.find(value); suggested != suggestions_.end()) {
    NameConstant(value, suggested->second.first, suggested->second.second);
  } else {  // such as the product of two strides
    NameConstant(value, "Stride" + std::to_string(value), "elements between neighbours");
  }
  return names_[value];
}

std::string CExpressionWriter::WriteFactor(const Expr& expr) {
  const auto& terms = expr.terms();
  const bool simple =
      terms.empty() ||
      (terms.size() == 1 && terms[0].coefficient >= 0 &&
       (terms[0].atoms.empty() || (terms[0].atoms.size() == 1 && terms[0].coefficient == 1 &&
                                   terms[0].atoms[0]->kind == Atom::Kind::kSymbol)));
  return simple ? Write(expr) : "(" + Write(expr) + ")";
}

std::string CExpressionWriter::WriteAtom(const Atom& atom) {
  wrote_division_ |= atom.kind == Atom::Kind::kFloorDiv || atom.kind == Atom::Kind::kMod;
  switch (atom.kind) {
    case Atom::Kind::kSymbol:
      return atom.name;
    case Atom::Kind::kFloorDiv:
    case Atom::Kind::kMod:
      return WriteDivision(atom);
    case Atom::Kind::kMin:
      return WriteExtremum("min", atom);
    case Atom::Kind::kMax:
      return WriteExtremum("max", atom);
  }
  return "";
}

std::string CExpressionWriter::WriteDivision(const Atom& atom) {
  for (const Expr::Term& term : atom.left.terms()) {
    if (term.atoms.empty())
      NameOffset(std::abs(term.coefficient), "shift", "of a position before it wraps around");
  }
  const std::string a = WriteFactor(atom.left), b = WriteFactor(atom.right);
  const bool is_mod = atom.kind == Atom::Kind::kMod;
  if (ranges_.ProvenNonNegative(atom.left)) return a + (is_mod ? " % " : " / ") + b;
  const std::string mod = "(" + a + " % " + b + " + " + b + ") % " + b;
  return is_mod ? mod : "(" + a + " - " + mod + ") / " + b;
}

std::string CExpressionWriter::WriteExtremum(const char* function, const Atom& atom) {
  const auto argument = [&](const Expr& expr) {
    const bool cast = wide_ && expr.AsConstant();
    return cast ? "(long long)" + WriteFactor(expr) : Write(expr);
  };
  return std::string(function) + "(" + argument(atom.left) + ", " + argument(atom.right) + ")";
}

std::string CExpressionWriter::WriteTerm(const Expr::Term& term, int64_t magnitude) {
  if (term.atoms.empty()) {
    const auto offset = offsets_.find(magnitude);
    return offset != offsets_.end() ? offset->second : WriteConstant(magnitude);
  }
  std::string text;
  const bool product = term.atoms.size() > 1 || magnitude != 1;
  for (const AtomRef& atom : term.atoms) {
    if (!text.empty()) text += " * ";
    const bool quotient = atom->kind == Atom::Kind::kFloorDiv || atom->kind == Atom::Kind::kMod;
    text += product && quotient ? "(" + WriteAtom(*atom) + ")" : WriteAtom(*atom);
  }
  if (magnitude == 1) return text;
  const auto factor = factors_.find({text, magnitude});
  return text + " * " + (factor != factors_.end() ? factor->second : WriteConstant(magnitude));
}

std::string CExpressionWriter::Write(const Expr& expr) {
  if (expr.terms().empty()) return "0";
  if (expr.terms().size() == 1 && expr.AsConstant()) return WriteConstant(*expr.AsConstant());
  // Positive terms first, so that the text starts with a minus only where all terms do; of these,
  // what steps farthest.
  std::vector<Expr::Term> terms = expr.terms();
  std::stable_sort(terms.begin(), terms.end(), [](const Expr::Term& a, const Expr::Term& b) {
    const auto rank = [](const Expr::Term& term) {
      return std::tuple{term.coefficient < 0, term.atoms.empty(),
                        -static_cast<int64_t>(term.atoms.size()),
                        term.coefficient < 0 ? term.coefficient : -term.coefficient};
    };
    return rank(a) < rank(b);
  });
  std::string text;
  for (const Expr::Term& term : terms) {
    if (term.coefficient == INT64_MIN) {  // a constant, which has no magnitude
      text += " + " + WriteConstant(INT64_MIN);
      continue;
    }
    const int64_t magnitude = std::abs(term.coefficient);
    if (term.atoms.empty() && terms.size() > 1 && !names_.count(magnitude))
      NameOffset(magnitude, "Offset" + std::to_string(magnitude), "where a part begins");
    if (term.coefficient < 0)
      text += text.empty() ? "-" : " - ";
    else if (!text.empty())
      text += " + ";
    text += WriteTerm(term, magnitude);
  }
  return text;
}

}  // namespace fusec
