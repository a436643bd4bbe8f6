#include "compiler/kernel/index_writer.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <tuple>

#include "compiler/kernel/model_names.h"
#include "compiler/support/words.h"

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
  // The mark comes first, so that the word of the constant differs from that of a dim of the same
  // name.
  return IsOfModel(name) ? kModelMark + out : out;
}

std::string IndexWriter::NewName(const std::string& hint) {
  const std::string name = "k" + PascalCase(hint);
  const int repeat = ++taken_[name];
  return repeat == 1 ? name : name + "_" + std::to_string(repeat);
}

CExpr IndexWriter::TypedConstant(const std::string& type, const std::string& hint,
                                 const CExpr& value, const std::string& comment) {
  const std::vector<std::string> meaning = {hint, value.ToString(), comment};
  auto found = own_.find(meaning);
  if (found == own_.end()) {
    const std::string name = NewName(hint);
    constants_.push_back({type, name, value, comment});
    found = own_.emplace(meaning, name).first;
  }
  return found->second;
}

CExpr IndexWriter::Constant(const std::string& hint, int64_t value, const std::string& comment) {
  const bool is_wide = value > INT32_MAX || value < INT32_MIN;
  return TypedConstant(is_wide ? "long long" : "int", hint, value, comment);
}

CExpr IndexWriter::Name(const SizeName& size) {
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

// The suffix of a coefficient's name that lists the atoms of its term: "_per_x_and_y".
std::string PerAtoms(const Expr::Term& term) {
  std::string per;
  for (const AtomRef& atom : term.atoms) {
    const bool is_symbol = atom->kind == Atom::Kind::kSymbol;
    per += (per.empty() ? "_per_" : "_and_") + (is_symbol ? WordOfSymbol(atom->name) : "quotient");
  }
  return per;
}

// Multiplies integers from left to right, so that no parentheses are needed.
CExpr Times(const CExpr& a, const CExpr& b) {
  return b.IsBinary("*") ? Times(Times(a, b.operand(0)), b.operand(1)) : a * b;
}
CExpr Negated(const CExpr& a) {
  return a.IsBinary("*") ? Negated(a.operand(0)) * a.operand(1) : -a;
}

}  // namespace

CExpr IndexWriter::WriteSize(int64_t value, const SizeNames& names) {
  if (IsPlain(value)) return value;
  if (value == INT64_MIN) return "-9223372036854775807LL - 1";  // C has no literal for it
  if (value < 0) return -WriteSize(-value, names);
  if (const SizeName* size = Find(names.sizes, value)) return Name(*size);
  if (!names.is_place) return Constant(names.subject, value, names.phrase);
  return Constant(names.subject + "_group", value,
                  "divisor of positions in \"" + names.subject + "\"");
}

CExpr IndexWriter::WriteDivisor(int64_t value, const SizeNames& names) {
  const SizeName* divisor = Find(names.divisors, value);
  return divisor && !Find(names.sizes, value) ? Name(*divisor) : WriteSize(value, names);
}

CExpr IndexWriter::WriteOffset(int64_t value, const SizeNames& names) {
  if (IsPlain(value)) return value;
  if (value == INT64_MIN) return WriteSize(value, names);
  if (value < 0) return -WriteOffset(-value, names);
  if (const SizeName* offset = Find(names.offsets, value)) return Constant(*offset);
  const std::string comment =
      names.is_place ? "offset of the element that is read of \"" + names.subject + "\""
                     : "offset " + names.phrase;
  return Constant(names.subject + "_offset", value, comment);
}

// If a variable counts vectors (NameFactor), its coefficient is written as the vector's length
// times the rest.
CExpr IndexWriter::WriteCoefficient(const Expr::Term& term, const CExpr& atoms, int64_t magnitude,
                                    const SizeNames& names) {
  const std::string text = term.atoms.size() == 1 ? atoms.ToOperandString() : atoms.ToString();
  if (const auto factor = factors_.find(text);
      factor != factors_.end() && magnitude % factor->second.value == 0) {
    const auto& [value, constant] = factor->second;
    if (magnitude == value) return constant;
    if (const SizeName* size = Find(names.sizes, magnitude / value)) return constant * Name(*size);
  }
  if (const SizeName* size = Find(names.sizes, magnitude)) return Name(*size);
  const std::string per = PerAtoms(term);
  if (names.is_place)
    return Constant(names.subject + per, magnitude,
                    "elements of \"" + names.subject + "\" per step of " + text);
  std::string each;
  for (const AtomRef& atom : term.atoms) {
    const bool is_symbol = atom->kind == Atom::Kind::kSymbol;
    each += (each.empty() ? ", for each " : " and ") +
            (is_symbol ? WordOfSymbol(atom->name) : "quotient");
  }
  return Constant(names.subject + per, magnitude, names.phrase + each);
}

CExpr IndexWriter::WriteAtom(const Atom& atom, const SizeNames& names) {
  wrote_division_ |= atom.kind == Atom::Kind::kFloorDiv || atom.kind == Atom::Kind::kMod;
  switch (atom.kind) {
    case Atom::Kind::kSymbol:
      return CExpr::Parse(WordOfSymbol(atom.name));  // the word may be an element of an array
    case Atom::Kind::kFloorDiv:
    case Atom::Kind::kMod:
      return WriteDivision(atom, names);
    case Atom::Kind::kMin:
      return WriteExtremum("min", atom, names);
    case Atom::Kind::kMax:
      return WriteExtremum("max", atom, names);
  }
  return {};
}

CExpr IndexWriter::WriteDivision(const Atom& atom, const SizeNames& names) {
  const auto divisor = atom.right.AsConstant();
  const CExpr a = Write(atom.left, names);
  const CExpr b = divisor ? WriteDivisor(*divisor, names) : Write(atom.right, names);
  const bool is_mod = atom.kind == Atom::Kind::kMod;
  if (ranges_.ProvenNonNegative(atom.left)) return is_mod ? a % b : a / b;
  const CExpr mod = (a % b + b) % b;
  return is_mod ? mod : (a - mod) / b;
}

CExpr IndexWriter::WriteExtremum(const char* function, const Atom& atom, const SizeNames& names) {
  const auto argument = [&](const Expr& expr) {
    const bool cast = wide_ && expr.AsConstant();
    return cast ? Cast("long long", Write(expr, names)) : Write(expr, names);
  };
  return Call(function, {argument(atom.left), argument(atom.right)});
}

CExpr IndexWriter::WriteTerm(const Expr::Term& term, int64_t magnitude, const SizeNames& names) {
  if (term.atoms.empty()) return WriteOffset(magnitude, names);
  CExpr product;
  for (const AtomRef& atom : term.atoms) {
    const CExpr factor = WriteAtom(*atom, names);
    product = product.empty() ? factor : product * factor;
  }
  if (magnitude == 1) return product;
  return Times(product, WriteCoefficient(term, product, magnitude, names));
}

CExpr IndexWriter::Write(const Expr& expr, const SizeNames& names) {
  if (expr.terms().empty()) return 0;
  if (const auto number = expr.AsConstant())
    return names.is_place ? WriteOffset(*number, names) : WriteSize(*number, names);
  // Positive terms come first, so that the text starts with a minus only if all terms are negative;
  // among these, the term with the largest stride comes first.
  Expr::Terms terms(expr.terms());
  std::stable_sort(terms.begin(), terms.end(), [](const Expr::Term& a, const Expr::Term& b) {
    const auto rank = [](const Expr::Term& term) {
      return std::tuple{term.coefficient < 0, term.atoms.empty(),
                        -static_cast<int64_t>(term.atoms.size()),
                        term.coefficient < 0 ? term.coefficient : -term.coefficient};
    };
    return rank(a) < rank(b);
  });
  CExpr sum;
  for (const Expr::Term& term : terms) {
    if (term.coefficient == INT64_MIN) {  // its magnitude is not representable
      sum = sum + WriteSize(INT64_MIN, names);
      continue;
    }
    const CExpr part = WriteTerm(term, std::abs(term.coefficient), names);
    if (term.coefficient < 0)
      sum = sum.empty() ? Negated(part) : sum - part;
    else
      sum = sum.empty() ? part : sum + part;
  }
  return sum;
}

}  // namespace fusec
