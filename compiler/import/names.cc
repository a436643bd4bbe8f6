#include "compiler/import/names.h"

#include <cctype>

namespace fusec {

std::string Identifier(std::string_view name) {
  std::string identifier;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c))) {
      identifier.push_back(c);
    } else if (!identifier.empty() && identifier.back() != '_') {
      identifier.push_back('_');
    }
  }
  while (!identifier.empty() && identifier.back() == '_') identifier.pop_back();
  const bool needs_letter =
      identifier.empty() || std::isdigit(static_cast<unsigned char>(identifier.front()));
  return needs_letter ? "t" + identifier : identifier;
}

std::string DomainName(const std::string& domain) { return domain.empty() ? "ai.onnx" : domain; }

std::string OneLine(std::string_view message) {
  std::string line;
  for (const char c : message) {
    if (!std::isspace(static_cast<unsigned char>(c))) {
      line.push_back(c);
    } else if (!line.empty() && line.back() != ' ') {
      line.push_back(' ');
    }
  }
  while (!line.empty() && (line.back() == ' ' || line.back() == '.')) line.pop_back();
  return line;
}

}  // namespace fusec
