#pragma once

#include <string>
#include <string_view>

#include "compiler/ir/code_tokens.h"
#include "compiler/support/adt.h"

namespace fusec {

// Lines with indentation, wrapped at 100 columns the way clang-format would.
class TextWriter {
 public:
  // A comment or a directive, which wrap at spaces, or a short line.
  void Line(const std::string& text);
  // A statement.
  void Code(const CodeTokens& line) { Broken(line); }
  // Whether the text fits in one line here.
  bool Fits(const std::string& text) const;
  // `type name`: a name that does not fit behind its type has a line of its own.
  void Declaration(const std::string& type, const std::string& name);
  // `name(parameters) {`
  void Signature(const CodeTokens& line) { Broken(line, /*is_signature=*/true); }
  // Statements with comments behind them, which begin in one column where they fit.
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
