#include "compiler/emit/text_writer.h"

namespace fusec {

namespace {

constexpr size_t kColumns = 100;

// The best place to break `text` before column `limit`: after the last comma or before the last
// operator outside of what is most deeply nested. Returns npos if there is none.
size_t BreakPosition(const std::string& text, size_t limit, size_t from) {
  static constexpr std::string_view kOperators[] = {" ? ", " : ", " || ", " && ", " + ",
                                                    " - ", " * ", " / ",  " = "};
  size_t best = std::string::npos;
  int best_depth = 1 << 20;
  int depth = 0;
  for (size_t i = 0; i < text.size() && i < limit; ++i) {
    if (text[i] == '(' || text[i] == '[') ++depth;
    if (text[i] == ')' || text[i] == ']') --depth;
    if (i <= from) continue;
    size_t at = std::string::npos;
    if (text[i] == ',' && i + 1 < text.size() && text[i + 1] == ' ') at = i + 2;
    for (std::string_view op : kOperators) {
      if (text.compare(i, op.size(), op) == 0)
        at = i + (op == " = " || op == " ? " || op == " : " ? (op == " = " ? 3 : 1) : op.size());
    }
    if (at != std::string::npos && at <= limit && depth <= best_depth) {
      best = at;
      best_depth = depth;
    }
  }
  return best;
}

}  // namespace

void TextWriter::Raw(int indent, std::string_view text) {
  if (!text.empty()) text_.append(indent, ' ');
  text_ += text;
  while (!text_.empty() && text_.back() == ' ') text_.pop_back();
  text_ += '\n';
}

void TextWriter::Line(const std::string& text) {
  const size_t width = kColumns - indent_;
  if (text.size() <= width) return Raw(indent_, text);
  if (text.rfind("//", 0) == 0) {
    const size_t space = text.rfind(' ', width);
    if (space == std::string::npos || space < 4) return Raw(indent_, text);
    Raw(indent_, text.substr(0, space));
    return Line("// " + text.substr(space + 1));
  }
  if (size_t comment = text.find("  // "); comment != std::string::npos && comment < width) {
    Line(text.substr(comment + 2));
    return Raw(indent_, text.substr(0, comment));
  }
  std::string rest = text;
  int indent = indent_;
  while (rest.size() + indent > kColumns) {
    const size_t at = BreakPosition(rest, kColumns - indent, 8);
    if (at == std::string::npos || at >= rest.size()) break;
    Raw(indent, rest.substr(0, at));
    rest = rest.substr(at);
    indent = indent_ + 4;
  }
  Raw(indent, rest);
}

void TextWriter::Call(const std::string& name, const std::vector<std::string>& arguments,
                      const std::string& ending) {
  std::string line = name + "(";
  const int aligned = static_cast<int>(line.size());
  int indent = indent_;
  bool first = true;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string item = arguments[i] + (i + 1 < arguments.size() ? "," : ")" + ending);
    if (!first && indent + line.size() + 1 + item.size() > kColumns) {
      Raw(indent, line);
      indent = indent_ + aligned;
      line.clear();
      first = true;
    }
    line += (first ? "" : " ") + item;
    first = false;
  }
  if (arguments.empty()) line += ")" + ending;
  Raw(indent, line);
}

void TextWriter::Verbatim(std::string_view text) {
  text_ += text;
  if (!text.empty() && text.back() != '\n') text_ += '\n';
}

}  // namespace fusec
