#include "tests/emulation/asm_calls.h"

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace fusec::emulation {
namespace {

bool IsOfWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The end of the string or character that begins at `at`.
size_t EndOfLiteral(const std::string& text, size_t at) {
  const char quote = text[at];
  for (++at; at < text.size() && text[at] != quote; ++at) at += text[at] == '\\';
  return at + 1;
}

// The place after the bracket that closes the one at `at`.
size_t EndOfBrackets(const std::string& text, size_t at) {
  int depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      at = EndOfLiteral(text, at);
      continue;
    }
    ++at;
    depth += c == '(' || c == '[' || c == '{';
    depth -= c == ')' || c == ']' || c == '}';
    if (depth == 0) return at;
  }
  std::fprintf(stderr, "a bracket of an asm statement is not closed:\n%s\n", text.c_str());
  std::abort();
}

// Splits the text between the brackets of an asm statement at colons, except those of qualified names (::).
std::vector<std::string> Sections(const std::string& text) {
  std::vector<std::string> sections(1);
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    size_t end = at + 1;
    if (c == '"' || c == '\'') end = EndOfLiteral(text, at);
    if (c == '(' || c == '[' || c == '{') end = EndOfBrackets(text, at);
    if (c == ':') sections.emplace_back();
    else sections.back() += text.substr(at, end - at);
    at = end;
  }
  return sections;
}

// The calls that construct the operands of a section such as `"=r"(a), "l"(b)`.
std::string Operands(const std::string& section) {
  std::string calls;
  for (size_t at = 0; (at = section.find('"', at)) != std::string::npos;) {
    const size_t end = EndOfLiteral(section, at);
    const std::string constraint = section.substr(at + 1, end - at - 2);
    const size_t open = section.find('(', end), close = EndOfBrackets(section, open);
    const char* call = constraint[0] == '=' ? "PtxOut" : constraint[0] == '+' ? "PtxBoth" : constraint == "C" ? "PtxText" : "PtxIn";
    calls += std::string(", ") + call + section.substr(open, close - open);
    at = close;
  }
  return calls;
}

}  // namespace

std::string AsmAsCalls(const std::string& text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const bool is_word = IsOfWord(text[at]) && (at == 0 || !IsOfWord(text[at - 1]));
    size_t open = at + 3;
    if (is_word && text.compare(at, 3, "asm") == 0 && !IsOfWord(text[open])) {
      if (text.compare(open, 9, " volatile") == 0) open += 9;
      if (text[open] == '(') {
        const size_t end = EndOfBrackets(text, open);
        std::vector<std::string> sections = Sections(text.substr(open + 1, end - open - 2));
        sections.resize(4);
        result += "Ptx(" + sections[0] + Operands(sections[1]) + Operands(sections[2]) + ")";
        at = end;
        continue;
      }
    }
    if (text.compare(at, 2, "//") == 0) {  // where quotes mean nothing
      const size_t end = std::min(text.find('\n', at), text.size());
      result += text.substr(at, end - at);
      at = end;
    } else if (text[at] == '"') {
      const size_t end = EndOfLiteral(text, at);
      result += text.substr(at, end - at);
      at = end;
    } else {
      result += text[at++];
    }
  }
  return result;
}

}  // namespace fusec::emulation
