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

std::string CExpressionWriter::TypedConstant(const std::string& type, const std::string& hint,
                                             const std::string& value, const std::string& comment) {
  auto found = own_.find({hint, value, comment});
  if (found == own_.end()) {
    const std::string name = NewName(hint);
    constants_.push_back({type, name, value, comment});
    found = own_.emplace(std::vector{hint, value, comment}, name).first;
  }
  return found->second;
}

std::string CExpressionWriter::Constant(const std::string& hint, int64_t value,
                                        const std::string& comment) {
  const bool is_wide = value > INT32_MAX || value < INT32_MIN;
  return TypedConstant(is_wide ? "long long" : "int", hint, std::to_string(value), comment);
}

std::string CExpressionWriter::Text(const SizeName& size) {
  const auto columns = columns_.find(size.value);
  return columns != columns_.end() && size.hint.ends_with("_columns") ? columns->second
                                                                      : Constant(size);
}

namespace {

const SizeName* Find(ArrayRef<SizeName> sizes, int64_t value) {
  const auto found = std::find_if(sizes.begin(), sizes.end(),
                                  [&](const SizeName& size) { return size.value == value; });
  return found == sizes.end() ? nullptr : &*found;
}

bool IsPlain(int64_t value) { return value == 0 || value == 1; }

// What a coefficient of these atoms is per.
std::string PerAtoms(const Expr::Term& term) {
  std::string per;
  for (const AtomRef& atom : term.atoms) {
    const bool is_symbol = atom->kind == Atom::Kind::kSymbol;
    per += (per.empty() ? "_per_" : "_and_") + (is_symbol ? atom->name : "quotient");
  }
  return per;
}

}  // namespace

std::string CExpressionWriter::WriteSize(int64_t value, const SizeNames& names) {
  if (IsPlain(value)) return std::to_string(value);
  if (value == INT64_MIN) return "(-9223372036854775807LL - 1)";  // C has no literal for it
  if (value < 0) return "-" + WriteSize(-value, names);
  if (const SizeName* size = Find(names.sizes, value)) return Text(*size);
  if (!names.is_place) return Constant(names.subject, value, names.phrase);
  return Constant(names.subject + "_group", value,
                  "what positions in \"" + names.subject + "\" are divided by");
}

std::string CExpressionWriter::WriteDivisor(int64_t value, const SizeNames& names) {
  const SizeName* divisor = Find(names.divisors, value);
  return divisor && !Find(names.sizes, value) ? Text(*divisor) : WriteSize(value, names);
}

std::string CExpressionWriter::WriteOffset(int64_t value, const SizeNames& names) {
  if (IsPlain(value)) return std::to_string(value);
  if (value == INT64_MIN) return WriteSize(value, names);
  if (value < 0) return "-" + WriteOffset(-value, names);
  if (const SizeName* offset = Find(names.offsets, value)) return Constant(*offset);
  const std::string comment =
      names.is_place ? "between an element and what is read of \"" + names.subject + "\""
                     : "offset " + names.phrase;
  return Constant(names.subject + "_offset", value, comment);
}

// Of a variable that counts vectors, the elements of each stand in front of what they step by.
std::string CExpressionWriter::WriteCoefficient(const Expr::Term& term, const std::string& atoms,
                                                int64_t magnitude, const SizeNames& names) {
  if (const auto factor = factors_.find(atoms);
      factor != factors_.end() && magnitude % factor->second.value == 0) {
    const auto& [value, constant] = factor->second;
    if (magnitude == value) return constant;
    if (const SizeName* size = Find(names.sizes, magnitude / value))
      return constant + " * " + Text(*size);
  }
  if (const SizeName* size = Find(names.sizes, magnitude)) return Text(*size);
  const std::string per = PerAtoms(term);
  if (names.is_place)
    return Constant(names.subject + per, magnitude,
                    "elements of \"" + names.subject + "\" per step of " + atoms);
  std::string each;
  for (const AtomRef& atom : term.atoms) {
    const bool is_symbol = atom->kind == Atom::Kind::kSymbol;
    each += (each.empty() ? ", for each " : " and ") + (is_symbol ? atom->name : "quotient");
  }
  return Constant(names.subject + per, magnitude, names.phrase + each);
}

std::string CExpressionWriter::WriteFactor(const Expr& expr, const SizeNames& names) {
  const auto& terms = expr.terms();
  const bool simple =
      terms.empty() ||
      (terms.size() == 1 && terms[0].coefficient >= 0 &&
       (terms[0].atoms.empty() || (terms[0].atoms.size() == 1 && terms[0].coefficient == 1 &&
                                   terms[0].atoms[0]->kind == Atom::Kind::kSymbol)));
  return simple ? Write(expr, names) : "(" + Write(expr, names) + ")";
}

std::string CExpressionWriter::WriteAtom(const Atom& atom, const SizeNames& names) {
  wrote_division_ |= atom.kind == Atom::Kind::kFloorDiv || atom.kind == Atom::Kind::kMod;
  switch (atom.kind) {
    case Atom::Kind::kSymbol:
      return atom.name;
    case Atom::Kind::kFloorDiv:
    case Atom::Kind::kMod:
      return WriteDivision(atom, names);
    case Atom::Kind::kMin:
      return WriteExtremum("min", atom, names);
    case Atom::Kind::kMax:
      return WriteExtremum("max", atom, names);
  }
  return "";
}

std::string CExpressionWriter::WriteDivision(const Atom& atom, const SizeNames& names) {
  const auto divisor = atom.right.AsConstant();
  const std::string a = WriteFactor(atom.left, names);
  const std::string b = divisor ? WriteDivisor(*divisor, names) : WriteFactor(atom.right, names);
  const bool is_mod = atom.kind == Atom::Kind::kMod;
  if (ranges_.ProvenNonNegative(atom.left)) return a + (is_mod ? " % " : " / ") + b;
  const std::string mod = "(" + a + " % " + b + " + " + b + ") % " + b;
  return is_mod ? mod : "(" + a + " - " + mod + ") / " + b;
}

std::string CExpressionWriter::WriteExtremum(const char* function, const Atom& atom,
                                             const SizeNames& names) {
  const auto argument = [&](const Expr& expr) {
    const bool cast = wide_ && expr.AsConstant();
    return cast ? "(long long)" + WriteFactor(expr, names) : Write(expr, names);
  };
  return std::string(function) + "(" + argument(atom.left) + ", " + argument(atom.right) + ")";
}

std::string CExpressionWriter::WriteTerm(const Expr::Term& term, int64_t magnitude,
                                         const SizeNames& names) {
  if (term.atoms.empty()) return WriteOffset(magnitude, names);
  std::string text;
  const bool product = term.atoms.size() > 1 || magnitude != 1;
  for (const AtomRef& atom : term.atoms) {
    if (!text.empty()) text += " * ";
    const bool quotient = atom->kind == Atom::Kind::kFloorDiv || atom->kind == Atom::Kind::kMod;
    text += product && quotient ? "(" + WriteAtom(*atom, names) + ")" : WriteAtom(*atom, names);
  }
  if (magnitude == 1) return text;
  return text + " * " + WriteCoefficient(term, text, magnitude, names);
}

std::string CExpressionWriter::Write(const Expr& expr, const SizeNames& names) {
  if (expr.terms().empty()) return "0";
  if (const auto number = expr.AsConstant())
    return names.is_place ? WriteOffset(*number, names) : WriteSize(*number, names);
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
      text += " + " + WriteSize(INT64_MIN, names);
      continue;
    }
    if (term.coefficient < 0)
      text += text.empty() ? "-" : " - ";
    else if (!text.empty())
      text += " + ";
    text += WriteTerm(term, std::abs(term.coefficient), names);
  }
  return text;
}

}  // namespace fusec
