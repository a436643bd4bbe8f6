#include "compiler/support/kernel_words.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "codegen_templates/templates.h"
#include "compiler/support/words.h"

namespace fusec {

namespace {

// The keywords of C++20, including the alternative spellings of operators.
constexpr std::string_view kKeywords[] = {
    "alignas",       "alignof",     "and",
    "and_eq",        "asm",         "auto",
    "bitand",        "bitor",       "bool",
    "break",         "case",        "catch",
    "char",          "char8_t",     "char16_t",
    "char32_t",      "class",       "compl",
    "concept",       "const",       "consteval",
    "constexpr",     "constinit",   "const_cast",
    "continue",      "co_await",    "co_return",
    "co_yield",      "decltype",    "default",
    "delete",        "do",          "double",
    "dynamic_cast",  "else",        "enum",
    "explicit",      "export",      "extern",
    "false",         "float",       "for",
    "friend",        "goto",        "if",
    "inline",        "int",         "long",
    "mutable",       "namespace",   "new",
    "noexcept",      "not",         "not_eq",
    "nullptr",       "operator",    "or",
    "or_eq",         "private",     "protected",
    "public",        "register",    "reinterpret_cast",
    "requires",      "return",      "short",
    "signed",        "sizeof",      "static",
    "static_assert", "static_cast", "struct",
    "switch",        "template",    "this",
    "thread_local",  "throw",       "true",
    "try",           "typedef",     "typeid",
    "typename",      "union",       "unsigned",
    "using",         "virtual",     "void",
    "volatile",      "wchar_t",     "while",
    "xor",           "xor_eq",
};

// Names that CUDA and the compilers define, including macros of CPU compilers.
constexpr std::string_view kBuiltIns[] = {
    "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "min",  "max",
    "abs",       "signbit",  "isnan",    "isinf",   "linux",    "unix",
};

// Math functions; their float forms have the suffix f.
constexpr std::string_view kMath[] = {
    "sqrt",  "exp",   "log",      "sin",   "cos",   "tan",   "asin",  "acos",
    "atan",  "sinh",  "cosh",     "tanh",  "asinh", "acosh", "atanh", "erf",
    "ceil",  "floor", "pow",      "fmod",  "rint",  "round", "fabs",  "expm1",
    "log1p", "trunc", "copysign", "rsqrt", "fmin",  "fmax",  "fma",
};

template <class List>
bool Contains(const List& list, std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

// `text` without comments and the contents of strings.
std::string WithoutComments(std::string_view text) {
  std::string code;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text.substr(at, 2) == "//") at = std::min(text.find('\n', at), text.size());
    if (text.substr(at, 2) == "/*") at = std::min(text.find("*/", at) + 1, text.size());
    if (at < text.size() && text[at] == '"') at = std::min(text.find('"', at + 1), text.size());
    if (at < text.size()) code += text[at];
  }
  return code;
}

// Splits code into words and single other characters.
std::vector<std::string> TokensOf(const std::string& code) {
  std::vector<std::string> tokens;
  for (size_t at = 0; at < code.size();) {
    size_t end = at;
    while (end < code.size() && IsWordCharacter(code[end])) ++end;
    if (end == at) ++end;
    if (end > at + 1 || !std::isspace(static_cast<unsigned char>(code[at])) || code[at] == '\n')
      tokens.push_back(code.substr(at, end - at));
    at = end;
  }
  return tokens;
}

bool BeginsName(const std::string& token) {
  return std::isalpha(static_cast<unsigned char>(token[0])) || token[0] == '_';
}

// Adds the functions, types, constants and macros that a file of codegen_templates defines at
// global or namespace scope.
void AddNames(std::string_view text, std::set<std::string, std::less<>>& names) {
  constexpr std::string_view kTypeWords[] = {"struct", "class", "enum", "union", "using"};
  const std::vector<std::string> tokens = TokensOf(WithoutComments(text));
  int braces = 0, parentheses = 0;
  std::string before;  // the previous token, ignoring line ends
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string& token = tokens[i];
    const std::string after = i + 1 < tokens.size() ? tokens[i + 1] : "";
    if (token == "#") {  // a directive, possibly continued on further lines
      if (after == "define") names.insert(tokens[i + 2]);
      while (i < tokens.size() && (tokens[i] != "\n" || tokens[i - 1] == "\\")) ++i;
      continue;
    }
    if (token == "namespace" && BeginsName(after)) {  // its brace is not counted
      while (i < tokens.size() && tokens[i] != "{") ++i;
      continue;
    }
    if (token == "template") {  // its parameters are not names of the file
      int angles = 0;
      do {
        ++i;
        angles += (tokens[i] == "<") - (tokens[i] == ">");
      } while (i + 1 < tokens.size() && (angles > 0 || tokens[i] == "\n"));
      continue;
    }
    braces = std::max(0, braces + (token == "{") - (token == "}"));
    parentheses += (token == "(") - (token == ")");
    if (braces == 0 && parentheses == 0 && BeginsName(token)) {
      const bool is_type = Contains(kTypeWords, before);
      const bool is_other =
          after == "(" || after == "=" || after == "[" || after == "{" || after == ";";
      if (is_type || is_other) names.insert(token);
    }
    if (token != "\n") before = token;
  }
}

}  // namespace

const std::set<std::string, std::less<>>& KernelWords() {
  static const auto* const kWords = [] {
    auto* words = new std::set<std::string, std::less<>>;
    words->insert(std::begin(kKeywords), std::end(kKeywords));
    words->insert(std::begin(kBuiltIns), std::end(kBuiltIns));
    for (const std::string_view function : kMath) {
      words->emplace(function);
      words->insert(std::string(function) + "f");
    }
    for (const std::string_view path : TemplatePaths()) {
      if (path.starts_with("device/") || path.starts_with("host/"))
        AddNames(*TemplateText(path), *words);
    }
    return words;
  }();
  return *kWords;
}

bool IsKernelConstant(std::string_view name) {
  return name.size() > 1 && name[0] == 'k' && std::isupper(static_cast<unsigned char>(name[1]));
}

}  // namespace fusec
