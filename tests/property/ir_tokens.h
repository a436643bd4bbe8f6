#pragma once

#include <string>
#include <vector>

#include "compiler/ir/lexer.h"

namespace fusec {

// Where a token of IR text stands, from its first character to behind its last one.
struct Place {
  size_t begin = 0, end = 0;
  Token::Kind kind = Token::Kind::kEnd;
};

// Those of a text up to its end, or up to what is no token.
inline std::vector<Place> TokensOf(const std::string& text) {
  std::vector<Place> tokens;
  Lexer lexer(text);
  while (lexer.Advance() && lexer.current().kind != Token::Kind::kEnd) {
    const size_t begin = lexer.current().text.data() - text.data();
    tokens.push_back({begin, begin + lexer.current().text.size(), lexer.current().kind});
  }
  return tokens;
}

}  // namespace fusec
