#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fusec {

// Lines with indentation, wrapped at 100 columns the way clang-format would.
class TextWriter {
 public:
  void Line(
      const std::string& text);  // wrapped at an operator or comma if too long; comments at spaces
  // `name(a, b, c)` + `ending`, arguments aligned behind the parenthesis where they do not fit.
  void Call(const std::string& name, const std::vector<std::string>& arguments,
            const std::string& ending);
  void Verbatim(std::string_view text);
  void Indent() { indent_ += 2; }
  void Outdent() { indent_ -= 2; }
  std::string Take() { return std::move(text_); }

 private:
  void Raw(int indent, std::string_view text);
  std::string text_;
  int indent_ = 0;
};

}  // namespace fusec
