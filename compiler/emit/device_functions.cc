#include "compiler/emit/device_functions.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "codegen_templates/templates.h"
#include "compiler/support/adt.h"
#include "compiler/support/check.h"
#include "compiler/support/words.h"

namespace fusec {

namespace {

using Kind = DevicePart::Kind;

// A token: a word, a directive including its continuation lines, and so on. The concatenated tokens
// of a text are the text.
struct Token {
  enum class Kind { kEnd, kSpace, kComment, kDirective, kString, kWord, kOther };
  Kind kind = Kind::kEnd;
  std::string_view text;
};

size_t EndOfLine(std::string_view text, size_t at) {
  return std::min(text.find('\n', at), text.size());
}

Token TokenAt(std::string_view text, size_t at) {
  if (at >= text.size()) return {};
  const char c = text[at];
  size_t end = at + 1;
  const auto token = [&](Token::Kind kind) { return Token{kind, text.substr(at, end - at)}; };
  if (std::isspace(static_cast<unsigned char>(c))) {
    while (end < text.size() && std::isspace(static_cast<unsigned char>(text[end]))) ++end;
    return token(Token::Kind::kSpace);
  }
  if (IsWordCharacter(c)) {
    while (end < text.size() && IsWordCharacter(text[end])) ++end;
    return token(Token::Kind::kWord);
  }
  if (c == '"' || c == '\'') {
    while (end < text.size() && text[end] != c) end += text[end] == '\\' ? 2 : 1;
    FUSEC_CHECK(end < text.size(), "a string without an end: " + std::string(text.substr(at, 80)));
    ++end;
    return token(Token::Kind::kString);
  }
  if (text.substr(at, 2) == "//") {
    end = EndOfLine(text, at);
    return token(Token::Kind::kComment);
  }
  if (c == '#') {
    end = EndOfLine(text, at);
    while (end < text.size() && text[end - 1] == '\\') end = EndOfLine(text, end + 1);
    return token(Token::Kind::kDirective);
  }
  return token(Token::Kind::kOther);
}

// The words of code including directives, but not those of comments and strings.
std::vector<std::string_view> WordsOfCode(std::string_view code) {
  std::vector<std::string_view> words;
  for (size_t at = 0; at < code.size();) {
    const Token token = TokenAt(code, at);
    if (token.kind == Token::Kind::kWord) words.push_back(token.text);
    if (token.kind == Token::Kind::kDirective)
      ForEachWord(token.text, [&](std::string_view word, size_t) { words.push_back(word); });
    at += token.text.size();
  }
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

using Tokens = std::vector<std::string_view>;

// The position after the bracket that closes the one at `at`. Angle brackets inside parentheses
// count as comparisons.
size_t BehindBrackets(const Tokens& tokens, size_t at) {
  const std::string_view open = tokens[at], close = open == "(" ? ")" : ">";
  int depth = 0;
  do {
    if (open == "<" && at < tokens.size() && tokens[at] == "(") at = BehindBrackets(tokens, at);
    FUSEC_CHECK(at < tokens.size(), "a bracket without an end");
    depth += (tokens[at] == open) - (tokens[at] == close);
    ++at;
  } while (depth > 0);
  return at;
}

// The name that a declaration declares. `tokens` exclude spaces and comments; `code` is for error
// messages.
std::string_view DeclaredName(const Tokens& tokens, std::string_view code) {
  const auto is = [&](size_t at, std::string_view text) {
    return at < tokens.size() && tokens[at] == text;
  };
  const std::string shown(code);
  size_t at = 0;
  if (is(at, "template")) at = BehindBrackets(tokens, at + 1);
  if (is(at, "using")) return tokens[at + 1];
  if (is(at, "struct") || is(at, "union") || is(at, "enum")) {
    FUSEC_CHECK(!is(at, "enum") || is(at + 1, "class"), "its values have names: " + shown);
    at += is(at, "enum") ? 2 : 1;
    if (is(at, "alignas")) at = BehindBrackets(tokens, at + 1);
    return tokens[at];
  }
  for (const char* other : {"namespace", "extern", "typedef", "static_assert", "class"})
    FUSEC_CHECK(!is(at, other), "not a declaration that kernels carry: " + shown);
  // For a function or a constant: the last word before its parameters or value that is not between
  // angle brackets.
  std::string_view name;
  while (at < tokens.size() && !is(at, "(") && !is(at, "=") && !is(at, ";") && !is(at, "{")) {
    if (IsWordCharacter(tokens[at].front())) name = tokens[at];
    at = is(at, "<") ? BehindBrackets(tokens, at) : at + 1;
  }
  FUSEC_CHECK(!name.empty() && name != "operator", "a declaration without a name: " + shown);
  return name;
}

class FileReader {
 public:
  explicit FileReader(std::string_view file) : file_(file) {}

  std::vector<DevicePart> Read() {
    while (at_ < file_.size()) {
      const Token token = TokenAt(file_, at_);
      if (token.kind == Token::Kind::kSpace) {
        const bool ends_paragraph = std::count(token.text.begin(), token.text.end(), '\n') > 1;
        at_ += has_comment_ ? 1 : token.text.size();  // the comment's line
        if (has_comment_ && ends_paragraph) Close(Kind::kNote);
      } else if (token.kind == Token::Kind::kComment) {
        at_ += token.text.size();
        has_comment_ = true;
      } else if (token.kind == Token::Kind::kDirective) {
        ReadDirective(token.text);
      } else {
        ReadDeclaration();
      }
    }
    FUSEC_CHECK(begin_ == file_.size() && branches_ == 0, "a device file ends in the middle");
    return std::move(parts_);
  }

 private:
  // Ends a part here, at the end of a line.
  void Close(Kind kind, std::string_view name = {}) {
    FUSEC_CHECK(kind != Kind::kNote || parts_.empty(),
                "only the first comment of a device file stands alone: " +
                    std::string(file_.substr(begin_, at_ - begin_)));
    const std::string_view text = file_.substr(begin_, at_ - begin_);
    DevicePart part{kind, text, name, {}};
    if (kind == Kind::kDeclaration) part.words = WordsOfCode(text);
    parts_.push_back(std::move(part));
    begin_ = at_;
    has_comment_ = false;
  }

  void ReadDirective(std::string_view line) {
    Tokens words;
    ForEachWord(line, [&](std::string_view word, size_t) { words.push_back(word); });
    FUSEC_CHECK(!words.empty(), "an empty directive in a device file");
    const std::string_view first = words[0];
    const bool is_if = first.starts_with("if"), is_end = first == "endif";
    const bool is_branch = is_if || is_end || first == "else";
    if (is_branch && has_comment_) Close(Kind::kNote);
    at_ = std::min(at_ + line.size() + 1, file_.size());
    if (is_branch) {
      branches_ += is_if - is_end;
      return Close(is_if ? Kind::kIf : is_end ? Kind::kEndIf : Kind::kElse);
    }
    if ((first == "define" || first == "undef") && words.size() > 1)
      return Close(Kind::kDeclaration, words[1]);
    // #pragma omp declare reduction(NAME : ...
    FUSEC_CHECK(words.size() > 4 && words[3] == "reduction",
                "a directive that device files do not have: " + std::string(line));
    Close(Kind::kDeclaration, words[4]);
  }

  // Reads up to the semicolon, or to the end of a function's body, and to the end of that line.
  void ReadDeclaration() {
    const size_t begin = at_;
    Tokens tokens;
    int depth = 0;
    bool is_whole = false;
    while (!is_whole) {
      const Token token = TokenAt(file_, at_);
      FUSEC_CHECK(token.kind != Token::Kind::kEnd,
                  "a declaration without an end: " + std::string(file_.substr(begin, 80)));
      at_ += token.text.size();
      if (token.kind != Token::Kind::kWord && token.kind != Token::Kind::kOther) continue;
      tokens.push_back(token.text);
      const char c = token.text.front();
      depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
      is_whole = depth == 0 && (c == ';' || (c == '}' && TokenAt(file_, at_).text != ";"));
    }
    const size_t end = EndOfLine(file_, at_);
    for (Token token; at_ < end; at_ += token.text.size()) {
      token = TokenAt(file_, at_);
      FUSEC_CHECK(token.kind == Token::Kind::kSpace || token.kind == Token::Kind::kComment,
                  "two declarations in a line: " + std::string(file_.substr(begin, end - begin)));
    }
    at_ = std::min(end + 1, file_.size());
    Close(Kind::kDeclaration, DeclaredName(tokens, file_.substr(begin, at_ - begin)));
  }

  std::string_view file_;
  std::vector<DevicePart> parts_;
  size_t begin_ = 0;  // where the current part begins
  size_t at_ = 0;
  bool has_comment_ = false;  // whether the current part has one
  int branches_ = 0;          // the number of open #if branches
};

// The parts of a file of device/, which is parsed only once.
const std::vector<DevicePart>& PartsOf(const std::string& file) {
  static const auto files = [] {
    std::map<std::string, std::vector<DevicePart>> all;
    constexpr std::string_view kFolder = "device/";
    for (const std::string_view path : TemplatePaths()) {
      if (!path.starts_with(kFolder)) continue;
      all.emplace(path.substr(kFolder.size()), TakeApart(TemplateText(path).value()));
    }
    return all;
  }();
  const auto found = files.find(file);
  FUSEC_CHECK(found != files.end(), "no device function file " + file);
  return found->second;
}

using DeviceParts = SmallPtrSet<const DevicePart*, 32>;

// The declarations of `files` that `code` uses, directly or indirectly.
DeviceParts Reached(std::string_view code, ArrayRef<std::string> files) {
  std::map<std::string_view, std::vector<const DevicePart*>> by_name;
  for (const std::string& file : files) {
    for (const DevicePart& part : PartsOf(file)) {
      if (part.kind == Kind::kDeclaration) by_name[part.name].push_back(&part);
    }
  }
  DeviceParts reached;
  std::vector<std::string_view> words = WordsOfCode(code);
  while (!words.empty()) {
    const auto found = by_name.find(words.back());
    words.pop_back();
    if (found == by_name.end()) continue;
    for (const DevicePart* part : found->second) {
      reached.insert(part);
      words.insert(words.end(), part->words.begin(), part->words.end());
    }
    by_name.erase(found);
  }
  return reached;
}

// Which parts of a file are copied to a kernel: the reached declarations, and the directives around
// them.
std::vector<bool> Kept(ArrayRef<DevicePart> parts, const DeviceParts& reached) {
  std::vector<bool> kept(parts.size(), false);
  std::vector<size_t> open;  // branches around a part: each #if, then its #else
  bool any = false;
  for (size_t i = 0; i < parts.size(); ++i) {
    const DevicePart& part = parts[i];
    if (part.kind == Kind::kIf || part.kind == Kind::kElse) open.push_back(i);
    if (part.kind == Kind::kDeclaration && reached.count(&part)) {
      any = kept[i] = true;
      for (const size_t branch : open) kept[branch] = true;
    }
    if (part.kind != Kind::kEndIf) continue;
    while (parts[open.back()].kind == Kind::kElse) open.pop_back();
    kept[i] = kept[open.back()];
    open.pop_back();
  }
  if (any && parts.front().kind == Kind::kNote) kept.front() = true;
  return kept;
}

}  // namespace

std::vector<DevicePart> TakeApart(std::string_view file) { return FileReader(file).Read(); }

std::string DeviceFunctionsFor(std::string_view code, ArrayRef<std::string> files) {
  const DeviceParts reached = Reached(code, files);
  std::string text;
  for (const std::string& file : files) {
    const std::vector<DevicePart>& parts = PartsOf(file);
    const std::vector<bool> kept = Kept(parts, reached);
    if (std::find(kept.begin(), kept.end(), true) == kept.end()) continue;
    text += "// ---- from codegen_templates/device/" + file + " ----\n";
    // Paragraphs are separated by empty lines; branches begin and end without one.
    bool is_apart = false, in_branch = true;
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::string_view part = parts[i].text;
      is_apart |= part.front() == '\n';
      if (!kept[i]) continue;
      const Kind kind = parts[i].kind;
      const bool ends_branch = kind == Kind::kElse || kind == Kind::kEndIf;
      if (is_apart && !in_branch && !ends_branch) text += '\n';
      text += part.substr(part.find_first_not_of('\n'));
      in_branch = kind == Kind::kIf || kind == Kind::kElse;
      is_apart = false;
    }
    text += '\n';
  }
  return text;
}

}  // namespace fusec
