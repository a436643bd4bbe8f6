#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/words.h"

namespace fusec {

class CodeTokens;

// An expression or type in a kernel: an immutable tree that is cheap to copy. It is printed when
// the whole kernel is printed, with the parentheses that its meaning needs and a few that help
// readers ((a / b) * c, a || (b && c)).
//
// A const char* is parsed as fixed text ("threadIdx.x" % warp_size); a std::string is always a
// single name. Operators build trees: a + b, a < b, a[i]. Because == and && on trees would be
// misleading, they are functions: Equal(a, b), And(a, b), Or(a, b).
class CExpr {
 public:
  enum class Kind : uint8_t {
    kNone,
    kName,         // `word`: row, Shape::kThreads, long long
    kLiteral,      // `word`
    kPrefix,       // `word` operand
    kBinary,       // operand `word` operand
    kConditional,  // operand ? operand : operand
    kCall,         // operand(operands..)
    kTemplate,     // operand<operands..>
    kSubscript,    // operand[operand]
    kMember,       // operand`word`: .at, ->next
    kCast,         // (operand)operand: the type first
    kList,         // {operands..}
  };

  CExpr() = default;        // none
  CExpr(const char* text);  // fixed text
  CExpr(const std::string& name);
  CExpr(int number);
  CExpr(int64_t number);
  CExpr(bool) = delete;

  // Parses text that is more than a name: a literal, or the formula of an op with its operands
  // filled in.
  static CExpr Parse(std::string_view text);
  // A type that is more than a name: "const float*", "__shared__ float".
  static CExpr Type(std::string text);
  static CExpr Make(Kind kind, std::string word, std::vector<CExpr> operands);

  Kind kind() const { return node_ ? node_->kind : Kind::kNone; }
  bool empty() const { return node_ == nullptr; }
  const std::string& word() const;
  const std::vector<CExpr>& operands() const;
  const CExpr& operand(size_t i) const { return operands()[i]; }
  bool IsBinary(std::string_view op) const { return kind() == Kind::kBinary && word() == op; }

  // A subscript and a member access: vector.Dot("at")[lane].
  CExpr operator[](const CExpr& index) const;
  CExpr Dot(const std::string& member) const;

  // Whether the trees are structurally equal.
  bool Is(const CExpr& other) const;
  // Calls visit(word) for every word of every name in the tree. Members are not names: they belong
  // to a type.
  template <class Visit>
  void ForEachName(const Visit& visit) const {
    if (!node_) return;
    if (node_->kind == Kind::kName)
      ForEachWord(node_->word, [&](std::string_view word, size_t) { visit(word); });
    for (const CExpr& operand : node_->operands) operand.ForEachName(visit);
  }
  bool Mentions(std::string_view name) const;
  // A copy with every word of every name replaced by rename(word); the replacement is printed as it
  // is.
  template <class Rename>
  CExpr Renamed(const Rename& rename) const {
    if (!node_) return {};
    std::string word = node_->word;
    if (node_->kind == Kind::kName)
      word = ReplaceWords(
          word, [&](std::string_view name, std::string_view) { return std::string(rename(name)); });
    std::vector<CExpr> operands;
    for (const CExpr& operand : node_->operands) operands.push_back(operand.Renamed(rename));
    return Make(node_->kind, std::move(word), std::move(operands));
  }

  std::string ToString() const;
  // The same, in parentheses if it is a binary operation or a conditional.
  std::string ToOperandString() const;

 private:
  struct Node {
    Kind kind;
    std::string word;
    std::vector<CExpr> operands;
  };
  std::shared_ptr<const Node> node_;
};

CExpr Binary(const CExpr& left, const std::string& op, const CExpr& right);
inline CExpr operator+(const CExpr& a, const CExpr& b) { return Binary(a, "+", b); }
inline CExpr operator-(const CExpr& a, const CExpr& b) { return Binary(a, "-", b); }
inline CExpr operator*(const CExpr& a, const CExpr& b) { return Binary(a, "*", b); }
inline CExpr operator/(const CExpr& a, const CExpr& b) { return Binary(a, "/", b); }
inline CExpr operator%(const CExpr& a, const CExpr& b) { return Binary(a, "%", b); }
inline CExpr operator<(const CExpr& a, const CExpr& b) { return Binary(a, "<", b); }
inline CExpr operator<=(const CExpr& a, const CExpr& b) { return Binary(a, "<=", b); }
inline CExpr operator>(const CExpr& a, const CExpr& b) { return Binary(a, ">", b); }
inline CExpr operator>=(const CExpr& a, const CExpr& b) { return Binary(a, ">=", b); }
inline CExpr Equal(const CExpr& a, const CExpr& b) { return Binary(a, "==", b); }
inline CExpr NotEqual(const CExpr& a, const CExpr& b) { return Binary(a, "!=", b); }
inline CExpr Or(const CExpr& a, const CExpr& b) { return Binary(a, "||", b); }
// If one of the two is empty, the result is the other.
CExpr And(const CExpr& a, const CExpr& b);
CExpr operator-(const CExpr& a);
CExpr Not(const CExpr& a);
CExpr Conditional(const CExpr& condition, const CExpr& then, const CExpr& otherwise);
CExpr Call(const CExpr& function, std::vector<CExpr> arguments);
CExpr Template(const CExpr& name, std::vector<CExpr> arguments);
CExpr Cast(const CExpr& type, const CExpr& operand);
CExpr List(std::vector<CExpr> items);
CExpr Min(const CExpr& a, const CExpr& b);

}  // namespace fusec
