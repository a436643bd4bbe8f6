#include "tests/end_to_end/dot_parser.h"

#include <cctype>

namespace fusec {
namespace {

class DotParser {
 public:
  explicit DotParser(const std::string& text) : text_(text) { Next(); }

  DotDrawing Parse() {
    Expect("digraph");
    Name();
    Statements();
    if (!token_.empty()) Complain("the end");
    return std::move(drawing_);
  }

 private:
  // A word, a quoted text with its quotes, "->", or one character; "" at the end.
  void Next() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    const size_t begin = at_;
    if (at_ == text_.size()) {
      token_.clear();
      return;
    }
    const auto is_word = [&] { return at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'); };
    if (text_[at_] == '"') {
      for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) at_ += text_[at_] == '\\';
      if (at_ >= text_.size()) return Complain("a closing quote");
      ++at_;
    } else if (is_word()) {
      while (is_word()) ++at_;
    } else {
      at_ += text_.compare(at_, 2, "->") == 0 ? 2 : 1;
    }
    token_ = text_.substr(begin, at_ - begin);
  }

  void Complain(const std::string& expected) {
    if (drawing_.error.empty()) drawing_.error = "at " + std::to_string(at_) + ": \"" + token_ + "\", expected " + expected;
    at_ = text_.size();
    token_.clear();
  }
  bool Take(const std::string& wanted) {
    if (token_ != wanted) return false;
    Next();
    return true;
  }
  void Expect(const std::string& wanted) {
    if (!Take(wanted)) Complain("\"" + wanted + "\"");
  }
  std::string Name() {
    const std::string name = token_;
    const bool is_name = !name.empty() && (name[0] == '"' || std::isalnum(static_cast<unsigned char>(name[0])) || name[0] == '_');
    if (is_name) Next();
    else Complain("a name");
    return name;
  }

  void Attributes() {  // [name=value, ...]
    if (!Take("[")) return;
    do {
      Name();
      Expect("=");
      Name();
    } while (Take(","));
    Expect("]");
  }

  void Statements() {
    Expect("{");
    while (!token_.empty() && token_ != "}") Statement();
    Expect("}");
  }

  void Statement() {
    if (Take("subgraph")) {
      if (!drawing_.clusters.insert(Name()).second) Complain("another subgraph");
      return Statements();
    }
    const std::string name = Name();
    if (Take("=")) {
      Name();
    } else if (Take("->")) {
      drawing_.edges.emplace_back(name, Name());
      Attributes();
    } else {
      if (name != "node" && name != "edge") drawing_.nodes.push_back(name);
      Attributes();
    }
    Expect(";");
  }

  const std::string& text_;
  size_t at_ = 0;
  std::string token_;
  DotDrawing drawing_;
};

}  // namespace

DotDrawing ParseDot(const std::string& text) { return DotParser(text).Parse(); }

}  // namespace fusec
