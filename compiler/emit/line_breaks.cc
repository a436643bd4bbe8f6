#include "compiler/emit/line_breaks.h"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>

namespace fusec {

namespace {

constexpr int kColumns = 100;
constexpr int kContinuation = 4;  // indentation of continued lines, in columns
constexpr int kExcess = 1000000;  // penalty per column beyond the limit
constexpr int kFirstBreak = 15;   // penalty of the first break at a depth
constexpr int kDepth = 20;        // penalty per parenthesis around a break
constexpr int kTight = 10;        // angle and square brackets count as this many parentheses
constexpr size_t kMostStates = 20000;

struct Token : CodeToken {
  int penalty = 0;  // of a break before it; 0: no break is possible
};

int Arguments(ArrayRef<Token> tokens, size_t open) {
  int depth = 0, count = 1;
  for (size_t i = open; i < tokens.size(); ++i) {
    depth += tokens[i].opens - tokens[i].closes;
    if (depth == 0) break;
    if (depth == 1 && tokens[i].precedence == CodeToken::kComma) ++count;
  }
  return count;
}

void FindPenalties(std::vector<Token>& tokens, bool is_signature) {
  int strength = 1;
  const bool is_for = tokens[0].text == "for";
  for (size_t i = 1; i < tokens.size(); ++i) {
    const Token& left = tokens[i - 1];
    Token& token = tokens[i];
    if (left.opens) strength += left.text == "(" || left.text == "{" ? 1 : kTight;
    int split = 0;
    if (token.closes || token.text == ";" || token.text == "," || left.text == "[") {
      split = 0;
    } else if (left.opens) {
      const bool of_statement = i >= 2 && (tokens[i - 2].text == "if" || is_for) && i == 2;
      split = left.is_template               ? 100
              : of_statement                 ? 1000
              : is_signature                 ? 100
              : Arguments(tokens, i - 1) > 1 ? 1
                                             : 19;
    } else if (token.is_ternary) {
      split = CodeToken::kConditional;
    } else if (left.precedence != CodeToken::kNoOperator && !left.is_ternary) {
      split = left.precedence == CodeToken::kAssignment && is_for ? 4 : left.precedence;
    }
    const bool possible = split > 0 || (left.text == ";" && !token.closes);
    if (possible) token.penalty = kDepth * strength + split;
    if (token.closes) strength -= token.text == ")" || token.text == "}" ? 1 : kTight;
  }
}

// An open bracket or operation around the next token.
struct Level {
  int indent = 0, last_space = 0, start_of_call = 0, question_column = 0;
  bool is_broken = false;         // a line break is at this level
  bool is_broken_inside = false;  // a break is deeper: the next operator ends its line
  bool keeps_together = false;
  bool keeps_operand_together = false;
  auto operator<=>(const Level&) const = default;
};

struct State {
  size_t next = 0;
  int column = 0;
  std::vector<Level> levels;
  auto operator<=>(const State&) const = default;
};

class LayoutSearch {
 public:
  LayoutSearch(ArrayRef<Token> tokens, int indent) : tokens_(tokens), indent_(indent) {}

  // Returns the columns of the tokens that begin lines.
  std::map<size_t, int> Run() {
    struct Node {
      State state;
      int previous;
      int column_of_break;  // -1: none
    };
    std::vector<Node> nodes;
    using Entry = std::tuple<int64_t, int>;  // penalty, node
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    std::map<State, bool> seen;
    State first{0, indent_, {Level{indent_, indent_, 0, 0, false, false, false, false}}};
    Move(first, 0);
    nodes.push_back({first, -1, -1});
    queue.emplace(0, 0);
    while (!queue.empty()) {
      const auto [penalty, number] = queue.top();
      queue.pop();
      const State state = nodes[number].state;
      if (state.next == tokens_.size() || nodes.size() > kMostStates) return Breaks(nodes, number);
      if (!seen.emplace(state, true).second) continue;
      for (const bool breaks : {false, true}) {
        if (breaks ? !CanBreak(state) : MustBreak(state)) continue;
        State next = state;
        const int64_t more = breaks ? OnNewLine(next) : OnSameLine(next);
        nodes.push_back({next, number, breaks ? column_of_break_ : -1});
        queue.emplace(penalty + more, static_cast<int>(nodes.size()) - 1);
      }
    }
    return {};
  }

 private:
  template <class Nodes>
  std::map<size_t, int> Breaks(const Nodes& nodes, int number) const {
    std::map<size_t, int> breaks;
    for (; number > 0; number = nodes[number].previous) {
      if (nodes[number].column_of_break >= 0)
        breaks[nodes[number].state.next - 1] = nodes[number].column_of_break;
    }
    return breaks;
  }

  bool CanBreak(const State& state) const {
    const Level& level = state.levels.back();
    return tokens_[state.next].penalty > 0 && !level.keeps_together &&
           !level.keeps_operand_together;
  }

  // Whether the next token must begin a line, because the left side or the argument before it is
  // broken.
  bool MustBreak(const State& state) const {
    if (!CanBreak(state) || !state.levels.back().is_broken_inside) return false;
    const Token& token = tokens_[state.next];
    const Token& left = tokens_[state.next - 1];
    if (left.precedence == CodeToken::kComma || left.precedence == CodeToken::kSemicolon)
      return true;
    if (token.is_ternary && left.text != "?") return true;  // the branch after a broken one
    const bool is_comparison =
        left.precedence == CodeToken::kEquality || left.precedence == CodeToken::kRelational;
    const bool behind_operation = state.next >= 2 && tokens_[state.next - 2].ends > 0;
    return left.precedence > CodeToken::kConditional && (!is_comparison || behind_operation);
  }

  int64_t OnNewLine(State& state) {
    const Token& token = tokens_[state.next];
    const Token& left = tokens_[state.next - 1];
    Level& level = state.levels.back();
    int64_t penalty = token.penalty + (level.is_broken ? 0 : kFirstBreak);
    level.is_broken = true;
    if (token.text == ":" && level.question_column > 0)
      state.column = level.question_column;
    else
      state.column = level.indent == indent_ ? indent_ + kContinuation : level.indent;
    column_of_break_ = state.column;
    const bool is_operator = left.precedence > CodeToken::kConditional;
    if (left.precedence == CodeToken::kComma || left.precedence == CodeToken::kSemicolon ||
        is_operator)
      level.is_broken_inside = false;
    if (token.text == "?" || left.text == "?") level.is_broken_inside = true;
    level.last_space = state.column;
    for (size_t i = 0; i + 1 < state.levels.size(); ++i) state.levels[i].is_broken_inside = true;
    if (left.precedence != CodeToken::kComma && left.precedence != CodeToken::kSemicolon &&
        !is_operator && !left.opens)
      level.is_broken_inside = true;
    return penalty + Move(state, state.next);
  }

  int64_t OnSameLine(State& state) {
    const Token& token = tokens_[state.next];
    const Token& left = tokens_[state.next - 1];
    Level& level = state.levels.back();
    if (left.opens) level.indent = state.column + token.spaces;
    // An operand on the line of its operator must not be broken.
    const bool is_operator = left.precedence > CodeToken::kConditional;
    if (((is_operator && left.precedence != CodeToken::kRelational) ||
         left.precedence == CodeToken::kComma || left.text == ":") &&
        !(is_operator && left.has_two_operands))
      level.keeps_operand_together = true;
    state.column += token.spaces;
    if (left.text == "(" && state.next >= 2 &&
        (tokens_[state.next - 2].text == "if" || tokens_[state.next - 2].text == "for"))
      level.last_space = state.column;
    else if (left.precedence == CodeToken::kComma)
      level.last_space = state.column;
    else if ((is_operator || left.is_ternary) ||
             (left.precedence == CodeToken::kAssignment && !token.starts.empty()))
      level.last_space = state.column;
    return Move(state, state.next);
  }

  // Moves past a token that is at the state's column; returns the penalty.
  int64_t Move(State& state, size_t at) const {
    const Token& token = tokens_[at];
    if (token.precedence != CodeToken::kNoOperator)
      state.levels.back().keeps_operand_together = false;
    if (token.text == "?") state.levels.back().question_column = state.column;
    BeginOperations(state, at);
    if (token.closes && state.levels.size() > 1) state.levels.pop_back();
    if (token.opens) {
      const Level& outer = state.levels.back();
      Level inner;
      inner.indent = kContinuation + std::max(outer.last_space, outer.start_of_call);
      inner.last_space = outer.last_space;
      inner.keeps_together = outer.keeps_together || outer.keeps_operand_together;
      state.levels.push_back(inner);
    }
    for (int i = 0; i < token.ends && state.levels.size() > 1; ++i) state.levels.pop_back();
    state.column += static_cast<int>(token.text.size());
    state.next = at + 1;
    return int64_t{kExcess} * std::max(0, state.column - kColumns);
  }

  void BeginOperations(State& state, size_t at) const {
    const Token* left = at > 0 ? &tokens_[at - 1] : nullptr;
    bool is_indented =
        !(left && (left->opens || left->text == ";" || left->precedence == CodeToken::kAssignment ||
                   left->text == "return"));
    for (const int precedence : tokens_[at].starts) {
      Level level = state.levels.back();
      level.is_broken = false;
      level.keeps_together |= level.keeps_operand_together;
      level.keeps_operand_together = false;
      level.indent = std::max({state.column, level.indent, state.levels.back().last_space});
      if (precedence > CodeToken::kSemicolon)
        level.last_space = std::max(level.last_space, state.column);
      if (precedence != CodeToken::kConditional) level.start_of_call = state.column;
      if (precedence == CodeToken::kConditional ||
          (is_indented && precedence > CodeToken::kAssignment))
        level.indent += kContinuation;
      if ((left && !left->opens) || precedence != CodeToken::kComma) level.is_broken_inside = false;
      state.levels.push_back(level);
      is_indented = true;
    }
  }

  ArrayRef<Token> tokens_;
  int indent_;
  int column_of_break_ = 0;
};

// The lines of a list in braces whose first item is at `column`. Items are aligned in columns, in
// as few lines as possible.
std::vector<std::string> LayOutItems(ArrayRef<std::string> items, int column) {
  constexpr size_t kMostUneven = 10;
  std::vector<size_t> best = {kColumns};
  size_t fewest = items.size();
  for (size_t columns = std::min<size_t>(items.size(), kColumns / 3); columns > 1; --columns) {
    std::vector<size_t> longest(columns, 0), shortest(columns, kColumns);
    for (size_t i = 0; i < items.size(); ++i) {
      longest[i % columns] = std::max(longest[i % columns], items[i].size());
      shortest[i % columns] = std::min(shortest[i % columns], items[i].size());
    }
    size_t width = columns - 1;
    bool is_even = true;
    for (size_t i = 0; i < columns; ++i) {
      width += longest[i];
      is_even &= i + 1 == columns || longest[i] - shortest[i] <= kMostUneven;
    }
    const size_t lines = (items.size() + columns - 1) / columns;
    if (!is_even || width + column > kColumns || lines > fewest) continue;
    fewest = lines;
    best = longest;
  }
  std::vector<std::string> lines;
  for (size_t i = 0; i < items.size(); ++i) {
    const size_t at = i % best.size();
    if (at == 0) lines.emplace_back();
    if (at > 0) lines.back().append(best[at - 1] - items[i - 1].size() + 1, ' ');
    lines.back() += items[i];
  }
  return lines;
}

// `name = {item, item, ...};`, where each item is one token.
std::vector<std::string> BreakList(ArrayRef<CodeToken> tokens, int indent) {
  std::string head, tail;
  std::vector<std::string> items;
  bool is_inside = false;
  for (const CodeToken& token : tokens) {
    is_inside &= token.text != "}";
    if (is_inside && token.precedence == CodeToken::kComma)
      items.back() += token.text;
    else if (is_inside)
      items.push_back(token.text);
    else
      (items.empty() ? head : tail) += std::string(token.spaces, ' ') + token.text;
    is_inside |= token.text == "{";
  }
  const int behind = indent + static_cast<int>(head.size()), below = indent + kContinuation;
  std::vector<std::string> lines = LayOutItems(items, behind);
  const std::vector<std::string> others = LayOutItems(items, below);
  const bool is_below = others.size() + 1 < lines.size();  // the brace has its own line
  if (is_below) lines = others;
  for (size_t i = is_below ? 0 : 1; i < lines.size(); ++i)
    lines[i].insert(0, is_below ? below : behind, ' ');
  if (is_below)
    lines.insert(lines.begin(), head);
  else
    lines[0] = head + lines[0];
  lines.back() += tail;
  return lines;
}

}  // namespace

std::vector<std::string> BreakStatement(const CodeTokens& line, int indent, bool is_signature) {
  const std::string text = line.ToString();
  if (static_cast<int>(text.size()) + indent <= kColumns) return {text};
  if (text.ends_with("};")) return BreakList(line.tokens(), indent);
  std::vector<Token> tokens;
  for (const CodeToken& token : line.tokens()) tokens.push_back({token});
  FindPenalties(tokens, is_signature);
  const std::map<size_t, int> breaks = LayoutSearch(tokens, indent).Run();
  std::vector<std::string> lines(1);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (const auto found = breaks.find(i); found != breaks.end())
      lines.emplace_back(found->second, ' ');
    else
      lines.back().append(tokens[i].spaces, ' ');
    lines.back() += tokens[i].text;
  }
  return lines;
}

}  // namespace fusec
