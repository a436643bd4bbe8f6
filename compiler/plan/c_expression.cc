#include "compiler/plan/c_expression.h"

#include <cctype>
#include <cstdlib>

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

void CExpressionWriter::NameConstant(int64_t value, const std::string& hint,
                                     const std::string& comment) {
  if ((value >= 0 && value <= 2) || names_.count(value)) return;
  std::string name = "k" + PascalCase(hint);
  const int repeat = ++taken_[name];
  if (repeat > 1) name += std::to_string(repeat);
  names_[value] = name;
  const bool wide = value > INT32_MAX || value < INT32_MIN;
  constants_.push_back({wide ? "long long" : "int", name, std::to_string(value), comment});
}

const std::string& CExpressionWriter::OwnConstant(const std::string& hint, int64_t value,
                                                  const std::string& comment) {
  auto found = own_.find(hint);
  if (found == own_.end()) {
    const std::string name = "k" + PascalCase(hint);
    ++taken_[name];
    constants_.push_back({"int", name, std::to_string(value), comment});
    found = own_.emplace(hint, name).first;
  }
  return found->second;
}

std::string CExpressionWriter::WriteConstant(int64_t value) {
  if (value >= 0 && value <= 2) return std::to_string(value);
  if (auto found = names_.find(value); found != names_.end()) return found->second;
  if (value < 0) return "-" + WriteConstant(-value);
  // A number nobody named, such as the product of two strides.
  NameConstant(value, "Stride" + std::to_string(value), "elements between neighbours");
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
  if (term.atoms.empty()) return WriteConstant(magnitude);
  std::string text;
  const bool product = term.atoms.size() > 1 || magnitude != 1;
  for (const AtomRef& atom : term.atoms) {
    if (!text.empty()) text += " * ";
    const bool quotient = atom->kind == Atom::Kind::kFloorDiv || atom->kind == Atom::Kind::kMod;
    text += product && quotient ? "(" + WriteAtom(*atom) + ")" : WriteAtom(*atom);
  }
  if (magnitude != 1) text += " * " + WriteConstant(magnitude);
  return text;
}

std::string CExpressionWriter::Write(const Expr& expr) {
  if (expr.terms().empty()) return "0";
  if (expr.terms().size() > 1) {
    for (const Expr::Term& term : expr.terms()) {
      if (!term.atoms.empty()) continue;
      const int64_t offset = std::abs(term.coefficient);
      NameConstant(offset, "Offset" + std::to_string(offset), "where a part begins");
    }
  }
  // Positive terms first, so that the text starts with a minus only where all terms do.
  std::string text;
  for (const Expr::Term& term : expr.terms()) {
    if (term.coefficient < 0) continue;
    if (!text.empty()) text += " + ";
    text += WriteTerm(term, term.coefficient);
  }
  for (const Expr::Term& term : expr.terms()) {
    if (term.coefficient > 0) continue;
    text += text.empty() ? "-" : " - ";
    text += WriteTerm(term, -term.coefficient);
  }
  return text;
}

}  // namespace fusec
