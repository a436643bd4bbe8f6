#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/words.h"

namespace fusec {

class CodeTokens;

// An expression of a kernel, or a type in one: an immutable tree, cheap to copy. It is printed
// once, when the kernel is, with the parentheses that its meaning needs and those that a reader
// wants ((a / b) * c, a || (b && c)).
//
// What planners write as fixed text is parsed where it stands ("threadIdx.x" % warp_size); a
// std::string is a name, and nothing else. Operators build trees: a + b, a < b, a[i]; but ==, which
// would read as a comparison of trees, is Equal(a, b), and so are && and || And and Or.
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

  // Of text that is no name: a literal, or what an op's template makes of scalars.
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

  // A subscript, and a member: vector.Dot("at")[lane].
  CExpr operator[](const CExpr& index) const;
  CExpr Dot(const std::string& member) const;

  // Whether both are the same tree.
  bool Is(const CExpr& other) const;
  // Calls visit(word) for every word of every name; members belong to a type and are none.
  template <class Visit>
  void ForEachName(const Visit& visit) const {
    if (!node_) return;
    if (node_->kind == Kind::kName)
      ForEachWord(node_->word, [&](std::string_view word, size_t) { visit(word); });
    for (const CExpr& operand : node_->operands) operand.ForEachName(visit);
  }
  bool Mentions(std::string_view name) const;
  // With rename(word) in place of every word of names; what it returns is printed as it is.
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
  // In parentheses, if it consists of several operands.
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
// Of none and another, the other.
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
