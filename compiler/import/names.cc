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

std::string ScopePath(std::string_view name) {
  if (!name.starts_with('/')) return "";
  std::string path;
  std::string_view parent;
  while (!name.empty()) {
    name.remove_prefix(1);
    const std::string_view part = name.substr(0, name.find('/'));
    name.remove_prefix(part.size());
    const bool repeats = !parent.empty() && part.size() > parent.size() &&
                         part.starts_with(parent) && part[parent.size()] == '.';
    if (!path.empty() && !repeats) path += '.';
    path += repeats ? part.substr(parent.size()) : part;
    parent = part;
  }
  return path;
}

std::string TensorIdentifier(std::string_view name) {
  if (!name.starts_with('/')) return Identifier(name);
  constexpr std::string_view kOnlyOutput = "_output_0";
  if (name.ends_with(kOnlyOutput)) name.remove_suffix(kOnlyOutput.size());
  return Identifier(ScopePath(name));
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
