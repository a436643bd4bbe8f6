#include "compiler/ir/lexer.h"

#include <fmt/format.h>

namespace fusec {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsWordStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool IsWordPart(char c) { return IsWordStart(c) || IsDigit(c) || c == '.'; }

int HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// Length of the number at the start of `text`: [-]digits[.digits][e[+-]digits]. The ".." of a range is not part of it.
size_t NumberLength(std::string_view text) {
  size_t i = text[0] == '-' ? 1 : 0;
  auto digits = [&] {
    while (i < text.size() && IsDigit(text[i])) ++i;
  };
  digits();
  if (i < text.size() && text[i] == '.' && text.substr(i, 2) != "..") {
    ++i;
    digits();
  }
  if (i < text.size() && text[i] == 'e') {
    ++i;
    if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
    digits();
  }
  return i;
}

}  // namespace

bool IsIdentifier(std::string_view text) {
  if (text.empty() || !IsWordStart(text[0])) return false;
  for (const char c : text) {
    if (!IsWordPart(c)) return false;
  }
  return true;
}

void Lexer::SkipSpace() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == '#') {
      while (position_ < text_.size() && text_[position_] != '\n') ++position_;
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      ++position_;
    } else {
      return;
    }
  }
}

Result<void> Lexer::Advance() {
  SkipSpace();
  token_start_ = position_;
  current_ = Token();
  if (position_ == text_.size()) return {};
  const std::string_view rest = text_.substr(position_);
  size_t length = 1;
  if (rest[0] == '"') return ReadString();
  if (IsWordStart(rest[0])) {
    current_.kind = Token::Kind::kWord;
    while (length < rest.size() && IsWordPart(rest[length])) ++length;
  } else if (IsDigit(rest[0]) || (rest[0] == '-' && rest.size() > 1 && IsDigit(rest[1]))) {
    current_.kind = Token::Kind::kNumber;
    length = NumberLength(rest);
  } else {
    current_.kind = Token::Kind::kSymbol;
    if (rest.substr(0, 2) == "..") length = 2;
    // -inf is one word, as inf is
    if (rest.substr(0, 4) == "-inf") {
      current_.kind = Token::Kind::kWord;
      length = 4;
    }
  }
  current_.text = rest.substr(0, length);
  position_ += length;
  return {};
}

Result<void> Lexer::ReadString() {
  current_.kind = Token::Kind::kString;
  size_t i = position_ + 1;
  while (true) {
    if (i >= text_.size() || text_[i] == '\n') return FailHere("this string does not end");
    if (text_[i] == '"') break;
    if (text_[i] != '\\') {
      current_.value += text_[i++];
      continue;
    }
    const char escape = i + 1 < text_.size() ? text_[i + 1] : '\0';
    i += 2;
    if (escape == 'n') {
      current_.value += '\n';
    } else if (escape == 't') {
      current_.value += '\t';
    } else if (escape == '"' || escape == '\\') {
      current_.value += escape;
    } else if (escape == 'x' && i + 1 < text_.size() && HexDigit(text_[i]) >= 0 &&
               HexDigit(text_[i + 1]) >= 0) {
      current_.value += static_cast<char>(HexDigit(text_[i]) * 16 + HexDigit(text_[i + 1]));
      i += 2;
    } else {
      return FailHere(R"(a string may only escape \", \\, \n, \t and \xNN)");
    }
  }
  current_.text = text_.substr(position_, i + 1 - position_);
  position_ = i + 1;
  return {};
}

Result<std::string_view> Lexer::TakeDim() {
  const size_t start = token_start_;
  int depth = 0;
  size_t end = start;
  while (end < text_.size()) {
    const char c = text_[end];
    if (depth == 0 && (c == ',' || c == ']')) break;
    if (c == '\n') return Expected("a dim");
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    ++end;
  }
  if (end == start) return Expected("a dim");
  position_ = end;
  return text_.substr(start, end - start);
}

tl::unexpected<Error> Lexer::FailHere(const std::string& message) const {
  size_t line = 1;
  size_t column = 1;
  for (const char c : text_.substr(0, token_start_)) {
    if (c == '\n') {
      ++line;
      column = 1;
    } else {
      ++column;
    }
  }
  return ModelError(fmt::format("line {}, column {}: {}", line, column, message));
}

tl::unexpected<Error> Lexer::Expected(const std::string& wanted) const {
  const bool end = current_.kind == Token::Kind::kEnd;
  return FailHere(fmt::format("expected {}, found {}", wanted,
                              end ? "the end of the text" : fmt::format("'{}'", current_.text)));
}

}  // namespace fusec
