#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/c_expr.h"
#include "compiler/support/adt.h"

namespace fusec {

// A piece of a code line that is never broken.
struct CodeToken {
  // Operator precedences, numbered as in clang-format.
  enum Precedence {
    kNoOperator = -1,
    kSemicolon,
    kComma,
    kAssignment,
    kConditional,
    kLogicalOr,
    kLogicalAnd,
    kEquality = 9,
    kRelational = 10,
    kShift = 12,
    kSum,
    kProduct,
  };
  std::string text;
  int spaces = 0;                // in front of it
  int precedence = kNoOperator;  // if it is an operator, comma or semicolon
  bool opens = false, closes = false;
  bool is_template = false;  // < or > around template arguments
  bool is_ternary = false;   // ? or :
  bool has_two_operands = true;
  std::vector<int> starts;  // precedences of the operations that begin here, outermost first
  int ends = 0;             // operations that end here
};

// The precedence of a binary operator such as + or &&; kNoOperator for other text.
int PrecedenceOf(std::string_view binary_operator);

// A line of code as tokens, grouped into nested operations. Expression trees are printed through
// it, and it tells where a line may be broken.
class CodeTokens {
 public:
  // Adds words as they are; spaces separate tokens. A word that follows another without a space is
  // appended to the same token.
  CodeTokens& Words(std::string_view text);
  CodeTokens& Space();
  CodeTokens& Add(const CExpr& expr);
  CodeTokens& Open(std::string_view bracket, bool is_template = false);
  CodeTokens& Close(std::string_view bracket, bool is_template = false);
  CodeTokens& Semicolon() { return Mark(";", CodeToken::kSemicolon); }
  CodeTokens& Comma() { return Mark(",", CodeToken::kComma).Space(); }
  // ` = `
  CodeTokens& Assign(std::string_view op = "=") { return Operator(op, CodeToken::kAssignment); }
  // Begin: an operation starts with the next token. End: it ends with the last token.
  CodeTokens& Begin(int precedence);
  CodeTokens& End();

  const std::vector<CodeToken>& tokens() const { return tokens_; }
  std::string ToString() const;

 private:
  CodeTokens& Operator(std::string_view op, int precedence, bool has_two_operands = true);
  CodeTokens& Mark(std::string_view text, int precedence);
  CodeToken& New(std::string_view text);
  void AddChain(const CExpr& expr, int precedence);
  void AddOperand(const CExpr& operand, const CExpr& of, bool is_right);
  void AddPrefixed(const CExpr& operand);
  void AddPostfixed(const CExpr& operand);
  void AddInParentheses(const CExpr& expr);
  void Add(const CExpr& expr, bool in_parentheses);
  void AddItems(ArrayRef<CExpr> items, size_t first);
  void AddConditional(const CExpr& expr);

  std::vector<CodeToken> tokens_;
  std::vector<int> begun_;  // operations that begin with the next token
  bool space_ = false;      // in front of it
  bool is_word_ = false;    // the last token is a word, to which more text may be appended
};

}  // namespace fusec
