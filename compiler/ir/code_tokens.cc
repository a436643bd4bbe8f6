#include "compiler/ir/code_tokens.h"

#include <algorithm>
#include <map>

namespace fusec {

using Kind = CExpr::Kind;

int PrecedenceOf(std::string_view binary_operator) {
  static const auto* const kTable = new std::map<std::string_view, int>{
      {"||", 4},  {"&&", 5}, {"|", 6},  {"^", 7},   {"&", 8},   {"==", 9},
      {"!=", 9},  {"<", 10}, {">", 10}, {"<=", 10}, {">=", 10}, {"<<", 12},
      {">>", 12}, {"+", 13}, {"-", 13}, {"*", 14},  {"/", 14},  {"%", 14}};
  const auto found = kTable->find(binary_operator);
  return found == kTable->end() ? CodeToken::kNoOperator : found->second;
}

namespace {

bool IsComparison(int precedence) {
  return precedence == CodeToken::kEquality || precedence == CodeToken::kRelational;
}

}  // namespace

CodeToken& CodeTokens::New(std::string_view text) {
  CodeToken token;
  token.text = std::string(text);
  token.spaces = space_ && !tokens_.empty() ? 1 : 0;
  token.starts = std::move(begun_);
  begun_.clear();
  space_ = is_word_ = false;
  return tokens_.emplace_back(std::move(token));
}

CodeTokens& CodeTokens::Words(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (is_word_ && !space_)
      tokens_.back().text += word;
    else
      New(word);
    is_word_ = true;
    if (end < text.size()) Space();
    at = end + 1;
  }
  return *this;
}

CodeTokens& CodeTokens::Space() {
  space_ = true;
  return *this;
}

CodeTokens& CodeTokens::Open(std::string_view bracket, bool is_template) {
  CodeToken& token = New(bracket);
  token.opens = true;
  token.is_template = is_template;
  return *this;
}

CodeTokens& CodeTokens::Close(std::string_view bracket, bool is_template) {
  CodeToken& token = New(bracket);
  token.closes = true;
  token.is_template = is_template;
  return *this;
}

CodeTokens& CodeTokens::Mark(std::string_view text, int precedence) {
  New(text).precedence = precedence;
  return *this;
}

CodeTokens& CodeTokens::Operator(std::string_view op, int precedence, bool has_two_operands) {
  Space();
  Mark(op, precedence);
  tokens_.back().is_ternary = precedence == CodeToken::kConditional;
  tokens_.back().has_two_operands = has_two_operands;
  return Space();
}

CodeTokens& CodeTokens::Begin(int precedence) {
  begun_.push_back(precedence);
  return *this;
}

CodeTokens& CodeTokens::End() {
  ++tokens_.back().ends;
  return *this;
}

void CodeTokens::AddInParentheses(const CExpr& expr) { Open("(").Add(expr).Close(")"); }

void CodeTokens::Add(const CExpr& expr, bool in_parentheses) {
  if (in_parentheses)
    AddInParentheses(expr);
  else
    Add(expr);
}

// A chain of operators of equal precedence is one operation: a + b - c.
void CodeTokens::AddChain(const CExpr& expr, int precedence) {
  std::vector<const CExpr*> chain;  // the last operator first
  const CExpr* left = &expr;
  while (left->kind() == Kind::kBinary && PrecedenceOf(left->word()) == precedence) {
    chain.push_back(left);
    const CExpr* next = &left->operand(0);
    if (precedence == CodeToken::kProduct && next->kind() == Kind::kBinary &&
        (next->word() != "*" || left->word() == "%"))
      break;  // it stands in parentheses
    if (precedence != CodeToken::kSum && precedence != CodeToken::kProduct &&
        (IsComparison(precedence) || next->word() != left->word()))
      break;
    left = next;
  }
  Begin(precedence);
  AddOperand(chain.back()->operand(0), *chain.back(), /*is_right=*/false);
  for (auto link = chain.rbegin(); link != chain.rend(); ++link) {
    Operator((*link)->word(), precedence, chain.size() == 1);
    AddOperand((*link)->operand(1), **link, /*is_right=*/true);
  }
  End();
}

// Adds an operand with the parentheses that the tree needs, and further ones where few readers know
// the precedences by heart.
void CodeTokens::AddOperand(const CExpr& operand, const CExpr& of, bool is_right) {
  const int outer = PrecedenceOf(of.word());
  bool in_parentheses = operand.kind() == Kind::kConditional;
  if (operand.kind() == Kind::kPrefix) in_parentheses = is_right && outer >= CodeToken::kShift;
  if (operand.kind() == Kind::kBinary) {
    const int inner = PrecedenceOf(operand.word());
    const bool is_and_in_or = of.word() == "||" && operand.word() == "&&";
    const bool is_bitwise = (outer > CodeToken::kLogicalAnd && outer < CodeToken::kEquality) ||
                            outer == CodeToken::kShift;
    in_parentheses = inner <= outer || is_and_in_or || is_bitwise;
  }
  Add(operand, in_parentheses);
}

void CodeTokens::AddPrefixed(const CExpr& operand) {
  const Kind kind = operand.kind();
  const bool repeats = kind == Kind::kPrefix && tokens_.back().text == operand.word();
  Add(operand, kind == Kind::kBinary || kind == Kind::kConditional || repeats);
}

void CodeTokens::AddPostfixed(const CExpr& operand) {
  const Kind kind = operand.kind();
  Add(operand, kind == Kind::kPrefix || kind == Kind::kBinary || kind == Kind::kConditional ||
                   kind == Kind::kCast);
}

void CodeTokens::AddItems(ArrayRef<CExpr> items, size_t first) {
  const size_t count = items.size() - first;
  if (count > 1) Begin(CodeToken::kComma);
  for (size_t i = first; i < items.size(); ++i) {
    if (i > first) Comma();
    Add(items[i]);
  }
  if (count > 1) End();
}

void CodeTokens::AddConditional(const CExpr& expr) {
  Begin(CodeToken::kConditional);
  Add(expr.operand(0), expr.operand(0).kind() == Kind::kConditional);
  Operator("?", CodeToken::kConditional);
  Add(expr.operand(1), expr.operand(1).kind() == Kind::kConditional);
  Operator(":", CodeToken::kConditional);
  Add(expr.operand(2));
  End();
}

CodeTokens& CodeTokens::Add(const CExpr& expr) {
  switch (expr.kind()) {
    case Kind::kNone:
      break;
    case Kind::kName:
    case Kind::kLiteral:
      Words(expr.word());
      break;
    case Kind::kPrefix:
      Words(expr.word());
      AddPrefixed(expr.operand(0));
      break;
    case Kind::kBinary:
      AddChain(expr, PrecedenceOf(expr.word()));
      break;
    case Kind::kConditional:
      AddConditional(expr);
      break;
    case Kind::kCall:
      AddPostfixed(expr.operand(0));
      Open("(");
      AddItems(expr.operands(), 1);
      Close(")");
      break;
    case Kind::kTemplate:
      Add(expr.operand(0));
      Open("<", /*is_template=*/true);
      AddItems(expr.operands(), 1);
      Close(">", /*is_template=*/true);
      break;
    case Kind::kSubscript:
      AddPostfixed(expr.operand(0));
      Open("[").Add(expr.operand(1)).Close("]");
      break;
    case Kind::kMember:
      AddPostfixed(expr.operand(0));
      Words(expr.word());
      break;
    case Kind::kCast:
      AddInParentheses(expr.operand(0));
      AddPrefixed(expr.operand(1));
      break;
    case Kind::kList:
      Open("{");
      AddItems(expr.operands(), 0);
      Close("}");
      break;
  }
  return *this;
}

std::string CodeTokens::ToString() const {
  std::string text;
  for (const CodeToken& token : tokens_) {
    text.append(token.spaces, ' ');
    text += token.text;
  }
  return text;
}

}  // namespace fusec
