#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "compiler/support/result.h"

namespace fusec {

// Whether `text` is a valid name of a value or symbol, which the lexer reads as one word:
// [A-Za-z_][A-Za-z0-9_.]*
bool IsIdentifier(std::string_view text);

// One token of IR text.
struct Token {
  enum class Kind { kWord, kNumber, kString, kSymbol, kEnd };
  Kind kind = Kind::kEnd;
  std::string_view text;  // as written
  std::string value;      // of a string: its contents, unescaped
};

// Splits IR text into words [A-Za-z0-9_.], numbers, quoted strings and single-character symbols
// (".." is one symbol); # starts a comment.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Result<void> Advance();  // reads the next token into current()
  const Token& current() const { return current_; }
  bool At(std::string_view text) const {
    return current_.kind != Token::Kind::kString && current_.kind != Token::Kind::kEnd &&
           current_.text == text;
  }
  // Skips a symbolic dim, that is, everything up to the comma or bracket that ends it, and returns
  // its text.
  Result<std::string_view> TakeDim();

  // `line 3, column 7: ` + message, at the current token.
  tl::unexpected<Error> FailHere(const std::string& message) const;
  tl::unexpected<Error> Expected(const std::string& wanted) const;  // "expected ..., found ..."

 private:
  Result<void> ReadString();
  void SkipSpace();

  std::string_view text_;
  size_t token_start_ = 0;
  size_t position_ = 0;  // just after the current token
  Token current_;
};

}  // namespace fusec
