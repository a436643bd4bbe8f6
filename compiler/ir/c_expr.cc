#include "compiler/ir/c_expr.h"

#include <algorithm>
#include <cctype>

#include "compiler/ir/code_tokens.h"
#include "compiler/support/check.h"

namespace fusec {

namespace {

// Whether the text is made of words, "::" and spaces: "row", "Shape::kThreads", "long long".
bool IsName(const std::string& text) {
  const bool is_made_of_words = std::all_of(
      text.begin(), text.end(), [](char c) { return IsWordCharacter(c) || c == ':' || c == ' '; });
  return is_made_of_words && !text.empty() && !std::isdigit(static_cast<unsigned char>(text[0]));
}

}  // namespace

CExpr CExpr::Make(Kind kind, std::string word, std::vector<CExpr> operands) {
  CExpr made;
  made.node_ = std::make_shared<const Node>(Node{kind, std::move(word), std::move(operands)});
  return made;
}

CExpr::CExpr(const char* text) : CExpr(Parse(text)) {}
CExpr::CExpr(const std::string& name) : CExpr(Make(Kind::kName, name, {})) {
  FUSEC_CHECK(IsName(name), "not a name in a kernel: " + name);
}
CExpr::CExpr(int number) : CExpr(int64_t{number}) {}
CExpr::CExpr(int64_t number)
    : CExpr(number < 0 ? Parse(std::to_string(number))
                       : Make(Kind::kLiteral, std::to_string(number), {})) {}

CExpr CExpr::Type(std::string text) { return Make(Kind::kName, std::move(text), {}); }

const std::string& CExpr::word() const {
  static const auto* const kEmpty = new std::string;
  return node_ ? node_->word : *kEmpty;
}

const std::vector<CExpr>& CExpr::operands() const {
  static const auto* const kNone = new std::vector<CExpr>;
  return node_ ? node_->operands : *kNone;
}

CExpr CExpr::operator[](const CExpr& index) const {
  return Make(Kind::kSubscript, "", {*this, index});
}

CExpr CExpr::Dot(const std::string& member) const {
  return Make(Kind::kMember, "." + member, {*this});
}

bool CExpr::Is(const CExpr& other) const {
  if (node_ == other.node_) return true;
  return kind() == other.kind() && word() == other.word() &&
         std::equal(operands().begin(), operands().end(), other.operands().begin(),
                    other.operands().end(), [](const CExpr& a, const CExpr& b) { return a.Is(b); });
}

bool CExpr::Mentions(std::string_view name) const {
  bool mentions = false;
  ForEachName([&](std::string_view word) { mentions |= word == name; });
  return mentions;
}

std::string CExpr::ToString() const { return CodeTokens().Add(*this).ToString(); }

std::string CExpr::ToOperandString() const {
  const bool is_several = kind() == Kind::kBinary || kind() == Kind::kConditional;
  return is_several ? "(" + ToString() + ")" : ToString();
}

CExpr Binary(const CExpr& left, const std::string& op, const CExpr& right) {
  return CExpr::Make(CExpr::Kind::kBinary, op, {left, right});
}
CExpr And(const CExpr& a, const CExpr& b) {
  if (a.empty() || b.empty()) return a.empty() ? b : a;
  if (b.IsBinary("&&")) return And(And(a, b.operand(0)), b.operand(1));
  return Binary(a, "&&", b);
}
CExpr operator-(const CExpr& a) { return CExpr::Make(CExpr::Kind::kPrefix, "-", {a}); }
CExpr Not(const CExpr& a) { return CExpr::Make(CExpr::Kind::kPrefix, "!", {a}); }
CExpr Conditional(const CExpr& condition, const CExpr& then, const CExpr& otherwise) {
  return CExpr::Make(CExpr::Kind::kConditional, "", {condition, then, otherwise});
}
CExpr Call(const CExpr& function, std::vector<CExpr> arguments) {
  arguments.insert(arguments.begin(), function);
  return CExpr::Make(CExpr::Kind::kCall, "", std::move(arguments));
}
CExpr Template(const CExpr& name, std::vector<CExpr> arguments) {
  arguments.insert(arguments.begin(), name);
  return CExpr::Make(CExpr::Kind::kTemplate, "", std::move(arguments));
}
CExpr Cast(const CExpr& type, const CExpr& operand) {
  return CExpr::Make(CExpr::Kind::kCast, "", {type, operand});
}
CExpr List(std::vector<CExpr> items) {
  return CExpr::Make(CExpr::Kind::kList, "", std::move(items));
}
CExpr Min(const CExpr& a, const CExpr& b) { return Call("min", {a, b}); }

}  // namespace fusec
