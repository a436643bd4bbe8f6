// Parses expressions. Their text comes from fusec itself; a FUSEC_CHECK fails on syntax that is not
// supported here.
#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "compiler/ir/c_expr.h"
#include "compiler/ir/code_tokens.h"
#include "compiler/support/check.h"

namespace fusec {

namespace {

using Kind = CExpr::Kind;

class ExpressionParser {
 public:
  explicit ExpressionParser(std::string_view text) : text_(text) {}

  CExpr Parse() {
    CExpr expr = ParseConditional();
    SkipSpaces();
    Check(at_ == text_.size());
    return expr;
  }

 private:
  void Check(bool is_known) const {
    FUSEC_CHECK(is_known, "not an expression of a kernel: " + std::string(text_));
  }
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  void SkipSpaces() {
    while (Peek() == ' ') ++at_;
  }
  bool Take(std::string_view wanted) {
    SkipSpaces();
    if (text_.substr(at_, wanted.size()) != wanted) return false;
    at_ += wanted.size();
    return true;
  }

  CExpr ParseConditional() {
    CExpr condition = ParseBinary(CodeToken::kLogicalOr);
    if (!Take("?")) return condition;
    const CExpr then = ParseConditional();
    Check(Take(":"));
    return Conditional(condition, then, ParseConditional());
  }

  // The next binary operator, or "". Inside template arguments, > is not an operator.
  std::string_view PeekOperator() {
    SkipSpaces();
    for (const size_t length : {2, 1}) {
      const std::string_view op = text_.substr(at_, length);
      if (op.size() == length && PrecedenceOf(op) != CodeToken::kNoOperator)
        return in_template_ && op[0] == '>' ? std::string_view() : op;
    }
    return {};
  }

  CExpr ParseBinary(int least) {
    CExpr left = ParsePrefix();
    for (std::string_view op; !(op = PeekOperator()).empty() && PrecedenceOf(op) >= least;) {
      if (EndsType(op)) break;
      at_ += op.size();
      left = Binary(left, std::string(op), ParseBinary(PrecedenceOf(op) + 1));
    }
    return left;
  }

  // Whether * or & is part of the type before it, as in <float*>, and not an operator.
  bool EndsType(std::string_view op) const {
    if (op != "*" && op != "&") return false;
    const size_t next = text_.find_first_not_of(" *&", at_);
    return next != std::string_view::npos && (text_[next] == '>' || text_[next] == ')');
  }

  CExpr ParsePrefix() {
    SkipSpaces();
    if (std::string_view("-!~*&").find(Peek()) != std::string_view::npos && Peek() != '\0') {
      const std::string op(1, text_[at_++]);
      return CExpr::Make(Kind::kPrefix, op, {ParsePrefix()});
    }
    if (Peek() == '(') {
      if (const std::string_view type = PeekCast(); !type.empty()) {
        at_ += type.size() + 2;
        return Cast(CExpr::Type(std::string(type)), ParsePrefix());
      }
    }
    return ParsePostfix(ParsePrimary());
  }

  // The type of the cast that comes next, or "". Only built-in type names count, because other
  // words could be local variables.
  std::string_view PeekCast() const {
    static const auto* const kTypes = new std::set<std::string_view>{
        "bool", "char", "short", "int", "long", "signed", "unsigned", "float", "double"};
    const size_t end = text_.find(')', at_);
    if (end == std::string_view::npos) return {};
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    bool is_type = !inside.empty() && std::all_of(inside.begin(), inside.end(), [](char c) {
      return IsWordCharacter(c) || c == ' ';
    });
    ForEachWord(inside, [&](std::string_view word, size_t) { is_type &= kTypes->count(word) > 0; });
    return is_type ? inside : std::string_view();
  }

  CExpr ParsePrimary() {
    if (Take("(")) {
      const std::vector<CExpr> inside = ParseItems(")");
      Check(inside.size() == 1);
      return inside[0];
    }
    if (Take("{")) return List(ParseItems("}"));
    const size_t begin = at_;
    if (std::isdigit(static_cast<unsigned char>(Peek()))) {
      while (IsWordCharacter(Peek()) || Peek() == '.' ||
             ((Peek() == '-' || Peek() == '+') && IsExponent(begin)))
        ++at_;
      return CExpr::Make(Kind::kLiteral, std::string(text_.substr(begin, at_ - begin)), {});
    }
    Check(IsWordCharacter(Peek()));
    // Words with spaces between them are a type: long long.
    while (IsWordCharacter(Peek()) || Peek() == ':' ||
           (Peek() == ' ' && IsWordCharacter(Peek(1)))) {
      if (Peek() == ':' && Peek(1) != ':') break;
      at_ += Peek() == ':' ? 2 : 1;
    }
    while ((Peek() == '*' || Peek() == '&') && EndsType(text_.substr(at_, 1))) ++at_;
    const CExpr name = CExpr::Type(std::string(text_.substr(begin, at_ - begin)));
    if (Peek() != '<') return name;
    ++at_;
    return Template(name, ParseItems(">"));
  }

  // Whether a sign belongs to the number that began at `begin`: 1e-05.
  bool IsExponent(size_t begin) const {
    return text_[at_ - 1] == 'e' && text_.substr(begin, 2) != "0x";
  }

  CExpr ParsePostfix(CExpr expr) {
    for (;;) {
      if (Peek() == '(') {
        ++at_;
        expr = Call(expr, ParseItems(")"));
      } else if (Peek() == '[') {
        ++at_;
        expr = expr[ParseConditional()];
        Check(Take("]"));
      } else if (Peek() == '.' || (Peek() == '-' && Peek(1) == '>')) {
        const size_t begin = at_;
        at_ += Peek() == '.' ? 1 : 2;
        while (IsWordCharacter(Peek())) ++at_;
        expr = CExpr::Make(Kind::kMember, std::string(text_.substr(begin, at_ - begin)), {expr});
      } else {
        return expr;
      }
    }
  }

  std::vector<CExpr> ParseItems(std::string_view end) {
    std::vector<CExpr> items;
    if (Take(end)) return items;
    const bool in_template = std::exchange(in_template_, end == ">");
    do {
      items.push_back(ParseConditional());
    } while (Take(","));
    in_template_ = in_template;
    Check(Take(end));
    return items;
  }

  std::string_view text_;
  size_t at_ = 0;
  bool in_template_ = false;  // template arguments are being parsed
};

}  // namespace

CExpr CExpr::Parse(std::string_view text) { return ExpressionParser(text).Parse(); }

}  // namespace fusec
