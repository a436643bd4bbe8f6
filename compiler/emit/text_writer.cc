#include "compiler/emit/text_writer.h"

#include <algorithm>

#include "compiler/emit/line_breaks.h"

namespace fusec {

namespace {

constexpr size_t kColumns = 100;

}  // namespace

void TextWriter::Raw(int indent, std::string_view text) {
  if (!text.empty()) text_.append(indent, ' ');
  text_ += text;
  while (!text_.empty() && text_.back() == ' ') text_.pop_back();
  text_ += '\n';
}

bool TextWriter::Fits(const std::string& text) const { return indent_ + text.size() <= kColumns; }

void TextWriter::Line(const std::string& text) {
  const size_t width = kColumns - indent_;
  if (Fits(text)) return Raw(indent_, text);
  if (text.rfind("//", 0) == 0) {
    const size_t space = text.rfind(' ', width);
    if (space == std::string::npos || space < 4) return Raw(indent_, text);
    Raw(indent_, text.substr(0, space));
    return Line("// " + text.substr(space + 1));
  }
  if (text.rfind('#', 0) == 0) return Directive(text);
  Raw(indent_, text);
}

void TextWriter::Declaration(const std::string& type, const std::string& name) {
  const std::string text = type + " " + name + ";";
  if (Fits(text)) return Raw(indent_, text);
  // An alignas gets its own line if the rest fits in the next one.
  const size_t behind = type.rfind("alignas(", 0) == 0 ? type.find(' ') : std::string::npos;
  const size_t end =
      behind != std::string::npos && Fits("    " + text.substr(behind + 1)) ? behind : type.size();
  Raw(indent_, text.substr(0, end));
  Raw(indent_ + 4, text.substr(end + 1));
}

// Directives are wrapped with a backslash at the end of the line.
void TextWriter::Directive(std::string text) {
  int indent = indent_;
  while (indent + text.size() > kColumns) {
    const size_t space = text.rfind(' ', kColumns - indent - 2);
    if (space == std::string::npos) break;
    Raw(indent, text.substr(0, space) + " \\");
    text.erase(0, space + 1);
    indent = indent_ + 4;
  }
  Raw(indent, text);
}

void TextWriter::Table(ArrayRef<Row> rows) {
  // Consecutive rows whose comments fit on their lines are aligned. Other rows get their comment on
  // the line before.
  const auto fits = [&](const Row& row, size_t column) {
    return indent_ + column + row.comment.size() + 5 <= kColumns;
  };
  std::vector<std::string> codes;
  for (const Row& row : rows) codes.push_back(row.code.ToString());
  for (size_t first = 0; first < rows.size();) {
    size_t last = first, column = 0;
    for (; last < rows.size(); ++last) {
      const size_t wider = std::max(column, codes[last].size());
      if (!std::all_of(rows.begin() + first, rows.begin() + last + 1,
                       [&](const Row& row) { return fits(row, wider); }))
        break;
      column = wider;
    }
    for (; first < last; ++first) {
      const std::string& code = codes[first];
      Raw(indent_, code + std::string(column - code.size() + 2, ' ') + "// " + rows[first].comment);
    }
    if (last == rows.size()) return;
    if (!fits(rows[last], codes[last].size())) {
      Line("// " + rows[last].comment);
      Code(rows[last].code);
      ++first;
    }
  }
}

void TextWriter::Broken(const CodeTokens& line, bool is_signature) {
  const std::vector<std::string> lines = BreakStatement(line, indent_, is_signature);
  for (size_t i = 0; i < lines.size(); ++i) Raw(i == 0 ? indent_ : 0, lines[i]);
}

void TextWriter::Verbatim(std::string_view text) {
  text_ += text;
  if (!text.empty() && text.back() != '\n') text_ += '\n';
}

}  // namespace fusec
