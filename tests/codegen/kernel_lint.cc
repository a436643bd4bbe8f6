#include "tests/codegen/kernel_lint.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <sstream>

namespace fusec {
namespace {

constexpr size_t kColumns = 100;

class Linter {
 public:
  explicit Linter(const std::string& text) {
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines_.push_back(line);
    for (size_t i = 0; i < lines_.size(); ++i) {
      if (lines_[i].rfind("// kernel  : ", 0) == 0) header_ = i;
      if (lines_[i].rfind("extern \"C\" __global__", 0) == 0) signature_ = i;
    }
  }

  std::vector<std::string> Lint() {
    CheckHeader();
    for (size_t i = 0; i < lines_.size(); ++i) {
      if (lines_[i].size() > kColumns) Complain(i, "more than 100 columns");
    }
    size_t body = signature_;
    while (body < lines_.size() && !lines_[body].ends_with(" {")) ++body;
    for (size_t i = body + 1; i < lines_.size(); ++i) {
      CheckNames(i);
      CheckLiterals(i);
      CheckNeedless(i);
    }
    CheckConstants();
    return std::move(problems_);
  }

 private:
  void Complain(size_t line, const std::string& why) {
    problems_.push_back(fmt::format("{}: {}: {}", line + 1, why, lines_[line]));
  }

  // kernel, perhaps what else it runs as and what serves other sizes, source, inputs, outputs,
  // perhaps sizes, launch, traffic, perhaps a drawing: in this order, none empty, nothing else.
  void CheckHeader() {
    struct Form {
      std::string label;
      std::regex text;
      bool is_optional = false;
    };
    static const Form kForms[] = {
        {"// kernel  : ", std::regex(R"(k\d\d+_\w+   class: [a-z_]+)")},
        {"// also as : ", std::regex(R"(k\d\d+_\w+(, k\d\d+_\w+)*)"), true},
        {"// variants: ", std::regex(R"(\S.* up to \d+: [\w*].*)"), true},
        {"// source  : ", std::regex(R"(\S.*)")},
        {"// inputs  : ", std::regex(R"(\S.*)")},
        {"// outputs : ", std::regex(R"(\S.*)")},
        {"// sizes   : ", std::regex(R"(\w+ \(.+\)(, \w+ \(.+\))*)"), true},
        {"// launch  : ", std::regex(R"([a-z0-9].*)")},
        {"// traffic : ",
         std::regex(R"(reads .+ bytes, writes .+ bytes(, keeps .+ bytes out of memory)?)")},
        {"// drawing : ", std::regex(R"([a-z].*)"), true},
    };
    size_t at = header_;
    for (const auto& [label, text, is_optional] : kForms) {
      if (at >= lines_.size()) return problems_.push_back("the header comment ends early");
      std::string line = lines_[at];
      const bool is_here = line.starts_with(label);
      if (is_optional && !is_here) continue;
      size_t next = at + 1;
      while (next < lines_.size() && lines_[next].rfind("//           ", 0) == 0)
        line += lines_[next++].substr(12);
      if (!is_here || !std::regex_match(line.substr(label.size()), text))
        Complain(at, "not this line of a header comment");
      at = next;
    }
    if (at != signature_) Complain(at, "the kernel should stand here");
  }

  static std::string Code(const std::string& line) { return line.substr(0, line.find("//")); }

  void CheckNames(size_t i) {
    static const std::regex kNameless(R"(\b(tmp|temp|var|v|t|buf|arg|idx)_?\d+\b)");
    static const std::regex kSpoken(R"(\bk(Stride|Offset)\d+\b)");
    static const std::regex kMacro(R"(^\s*#(?!pragma (unroll|omp simd))|@\w+@|\$\{)");
    const std::string code = Code(lines_[i]);
    if (std::regex_search(code, kNameless)) Complain(i, "a name that says nothing");
    if (std::regex_search(code, kSpoken)) Complain(i, "a name that only repeats its value");
    if (std::regex_search(code, kMacro)) Complain(i, "a macro");
  }

  // Numbers but 0 and 1 have names, which the constants at the top give them; one of two places in
  // turn is `% 2`, and small numbers of the model speak for themselves.
  void CheckLiterals(size_t i) {
    static const std::regex kLiteral(R"([^\w.](\d[\w.]*([eE]-\d+f?)?))");
    static const std::regex kPlain(R"(0x.*|[01](LL|ULL|u)?|2(LL|ULL|u)|[0123]\.0f?)");
    const std::string code = " " + Code(lines_[i]);
    in_constant_ |= code.find(" constexpr ") != std::string::npos;
    const bool is_constant = in_constant_;
    if (code.find(';') != std::string::npos) in_constant_ = false;
    if (is_constant || code.find("alignas(") != std::string::npos) return;
    for (std::sregex_iterator at(code.begin(), code.end(), kLiteral), end; at != end; ++at) {
      if (at->prefix().str().ends_with("%") && (*at)[1] == "2") continue;
      if (!std::regex_match((*at)[1].str(), kPlain)) Complain(i, "the number " + (*at)[1].str());
    }
  }

  void CheckNeedless(size_t i) {
    static const std::regex kSame(R"(^\s*([\w\[\].]+) = \1 [-+*] )");
    static const std::regex kCast(R"(\((int|long long|float|double)\)\(\w+\))");
    // A sum with 0.0f is not needless, as it makes -0 to 0.
    static const std::regex kOne(R"( \* 1\b| \+ 0\b(?!\.0f)|\b0 \+ )");
    static const std::regex kTwice(R"(// (\w+): \1$)");
    const std::string code = Code(lines_[i]);
    if (std::regex_search(code, kSame)) Complain(i, "should be a compound assignment");
    if (std::regex_search(code, kCast)) Complain(i, "needless parentheses");
    if (std::regex_search(code, kOne)) Complain(i, "needless arithmetic");
    if (std::regex_search(lines_[i], kTwice)) Complain(i, "says the same twice");
  }

  // Each constant is used, and no two constants have the same comment.
  void CheckConstants() {
    static const std::regex kConstant(R"(^  constexpr [\w ]+? (k\w+)(\[\w+\])? =)");
    std::string code;
    for (size_t i = signature_; i < lines_.size(); ++i) code += Code(lines_[i]) + "\n";
    for (size_t i = signature_; i < lines_.size(); ++i) {
      std::smatch found;
      if (!std::regex_search(lines_[i], found, kConstant)) continue;
      const std::regex word("\\b" + found[1].str() + "\\b");
      const auto uses = std::distance(std::sregex_iterator(code.begin(), code.end(), word), {});
      if (uses < 2) Complain(i, "a constant that nothing uses");
    }
  }

  std::vector<std::string> lines_, problems_;
  size_t header_ = 0, signature_ = 0;
  bool in_constant_ = false;  // whether the current line belongs to a constant's value
};

}  // namespace

std::vector<std::string> LintKernel(const std::string& text) { return Linter(text).Lint(); }

}  // namespace fusec
