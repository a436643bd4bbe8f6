#pragma once

#include <string>
#include <vector>

#include "compiler/ir/lexer.h"

namespace fusec {

// The place of a token in IR text: from its first character to behind its last one.
struct Place {
  size_t begin = 0, end = 0;
  Token::Kind kind = Token::Kind::kEnd;
};

// The tokens of a text, up to its end or up to the first place that is not a token.
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
