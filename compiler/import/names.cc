#include "compiler/import/names.h"

#include <algorithm>
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

std::string Printable(std::string_view text) {
  std::string printable;
  const auto at = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  for (size_t i = 0; i < text.size();) {
    const unsigned lead = at(i);
    const size_t length = lead < 0x80   ? 1
                          : lead < 0xc2 ? 0
                          : lead < 0xe0 ? 2
                          : lead < 0xf0 ? 3
                          : lead < 0xf5 ? 4
                                        : 0;
    bool good = length > 0 && lead != 0x7f && (lead >= 0x20 || lead == '\n');
    for (size_t k = 1; k < length; ++k) good &= (at(i + k) & 0xc0) == 0x80;
    // Overlong forms, surrogates and code points beyond Unicode.
    good &= !(lead == 0xe0 && at(i + 1) < 0xa0) && !(lead == 0xed && at(i + 1) >= 0xa0);
    good &= !(lead == 0xf0 && at(i + 1) < 0x90) && !(lead == 0xf4 && at(i + 1) >= 0x90);
    if (good)
      printable += text.substr(i, length);
    else
      printable += '?';
    i += good ? length : 1;
  }
  return printable;
}

std::string PrintableLine(std::string_view text) {
  std::string line = Printable(text);
  std::replace(line.begin(), line.end(), '\n', '?');
  return line;
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
  if (!line.empty()) line[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(line[0])));
  return line;
}

}  // namespace fusec
