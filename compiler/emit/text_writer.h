#pragma once

#include <string>
#include <string_view>

#include "compiler/ir/code_tokens.h"
#include "compiler/support/adt.h"

namespace fusec {

// Writes indented lines, wrapped at 100 columns like clang-format.
class TextWriter {
 public:
  // Writes a comment or a directive, which is wrapped at spaces, or a short line.
  void Line(const std::string& text);
  // Writes a statement.
  void Code(const CodeTokens& line) { Broken(line); }
  // Whether the text fits in one line here.
  bool Fits(const std::string& text) const;
  // Writes `type name`; a name that does not fit on the line of its type gets its own line.
  void Declaration(const std::string& type, const std::string& name);
  // `name(parameters) {`
  void Signature(const CodeTokens& line) { Broken(line, /*is_signature=*/true); }
  // Statements with trailing comments, which are aligned in one column if they fit.
  struct Row {
    CodeTokens code;
    std::string comment;
  };
  void Table(ArrayRef<Row> rows);
  void Verbatim(std::string_view text);
  void Indent() { indent_ += 2; }
  void Outdent() { indent_ -= 2; }
  std::string Take() { return std::move(text_); }

 private:
  void Broken(const CodeTokens& line, bool is_signature = false);
  void Directive(std::string text);
  void Raw(int indent, std::string_view text);
  std::string text_;
  int indent_ = 0;
};

}  // namespace fusec
