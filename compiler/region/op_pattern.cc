#include "compiler/region/op_pattern.h"

#include <algorithm>
#include <map>

#include "compiler/ir/op_def.h"
#include "compiler/support/check.h"
#include "compiler/support/words.h"

namespace fusec {

class OpPattern::Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Term ParseAll() {
    Term term = ParseTerm();
    FUSEC_CHECK(at_ == text_.size(), "the end of the pattern is expected in " + Rest());
    return term;
  }

 private:
  Term ParseTerm() {
    Term term;
    const std::string_view word = TakeWord();
    if (Take(": ")) {
      term = ParseTerm();
      term.name = word;
    } else if (Take("(")) {
      const OpDef* op = FindOpByText(word);
      FUSEC_CHECK(op != nullptr, "no op is called " + std::string(word));
      term.kind = op->kind;
      do {
        term.operands.push_back(ParseTerm());
      } while (Take(", "));
      FUSEC_CHECK(Take(")"), "a parenthesis is expected in " + Rest());
    } else {
      term.name = word;
    }
    return term;
  }
  std::string_view TakeWord() {
    const size_t begin = at_;
    while (at_ < text_.size() && IsWordCharacter(text_[at_])) ++at_;
    FUSEC_CHECK(at_ > begin, "a word is expected in " + Rest());
    return text_.substr(begin, at_ - begin);
  }
  bool Take(std::string_view next) {
    if (!text_.substr(at_).starts_with(next)) return false;
    at_ += next.size();
    return true;
  }
  std::string Rest() const { return std::string(text_.substr(at_)); }

  const std::string_view text_;
  size_t at_ = 0;
};

class OpPattern::Matcher {
 public:
  explicit Matcher(const ValueSet& fixed) : fixed_(fixed) {}

  bool MatchNode(const Term& term, const Node& node) {
    if (node.kind != term.kind || node.operands.size() != term.operands.size()) return false;
    nodes_.push_back(&node);
    const size_t count = nodes_.size();
    const auto names = names_;
    if (MatchOperands(term, node, /*turned=*/false)) return true;
    nodes_.resize(count);
    names_ = names;
    return term.operands.size() == 2 && (GetOpDef(node.kind).algebra & kCommutative) != 0 &&
           MatchOperands(term, node, /*turned=*/true);
  }
  std::vector<const Node*> TakeNodes() { return std::move(nodes_); }

 private:
  bool MatchOperands(const Term& term, const Node& node, bool turned) {
    for (size_t i = 0; i < term.operands.size(); ++i) {
      const Value* operand = node.operands[turned ? 1 - i : i];
      if (operand == nullptr || !MatchValue(term.operands[i], *operand)) return false;
    }
    return true;
  }
  bool MatchValue(const Term& term, const Value& operand) {
    if (term.name == "fixed") return fixed_.count(&operand) != 0;
    const Value* value = Viewed(&operand);
    if (term.kind && (value->producer == nullptr || !MatchNode(term, *value->producer)))
      return false;
    if (term.name.empty() || term.name == "_") return true;
    return names_.try_emplace(term.name, value).first->second == value;
  }

  const ValueSet& fixed_;
  std::map<std::string, const Value*> names_;
  std::vector<const Node*> nodes_;
};

OpPattern::OpPattern(std::string_view text) : root_(Parser(text).ParseAll()) {}

std::optional<std::vector<const Node*>> OpPattern::Match(const Node& root,
                                                         const ValueSet& fixed) const {
  Matcher matcher(fixed);
  if (!matcher.MatchNode(root_, root)) return std::nullopt;
  return matcher.TakeNodes();
}

bool IsView(const Node& node) {
  return GetOpDef(node.kind).op_class == OpClass::kView && node.kind != OpKind::kConcat;
}

const Value* Viewed(const Value* value) {
  const Node* node = value->producer;
  while (node != nullptr && (IsView(*node) || node->kind == OpKind::kCast)) {
    value = node->operand(0);
    node = value->producer;
  }
  return value;
}

}  // namespace fusec
