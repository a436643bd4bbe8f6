#include "compiler/emit/line_breaks.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <queue>
#include <tuple>

namespace fusec {

namespace {

constexpr int kColumns = 100;
constexpr int kContinuation = 4;  // columns that a continued line is indented
constexpr int kExcess = 1000000;  // per column beyond the last
constexpr int kFirstBreak = 15;   // more, where nothing at this depth is broken yet
constexpr int kDepth = 20;        // per parenthesis around a break
constexpr int kTight = 10;        // parentheses that an angle or square bracket counts for
constexpr size_t kMostStates = 20000;

// Precedences, as clang-format numbers them.
enum Precedence { kNone = -1, kSemicolon, kComma, kAssignment, kConditional, kLogicalOr };
constexpr int kEquality = 9, kRelational = 10, kTightest = 15;

struct Token {
  std::string text;
  int spaces = 0;          // in front of it
  int precedence = kNone;  // of an operator, comma or semicolon
  bool opens = false, closes = false;
  bool is_template = false;  // < and > around arguments
  bool is_ternary = false;   // ? or :
  bool has_two_operands = true;
  int penalty = 0;          // of a break in front of it; 0: none is possible
  std::vector<int> starts;  // precedences of the operations that begin here, outermost first
  int ends = 0;             // operations that end here
};

int PrecedenceOf(std::string_view op) {
  static const std::map<std::string_view, int> kTable = {
      {";", 0},   {",", 1},  {"=", 2},  {"+=", 2}, {"-=", 2}, {"*=", 2},  {"/=", 2},  {"|=", 2},
      {"&=", 2},  {"^=", 2}, {"?", 3},  {":", 3},  {"||", 4}, {"&&", 5},  {"|", 6},   {"^", 7},
      {"&", 8},   {"==", 9}, {"!=", 9}, {"<", 10}, {">", 10}, {"<=", 10}, {">=", 10}, {"<<", 12},
      {">>", 12}, {"+", 13}, {"-", 13}, {"*", 14}, {"/", 14}, {"%", 14}};
  const auto found = kTable.find(op);
  return found == kTable.end() ? kNone : found->second;
}

bool IsWord(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '"' || c == '\'';
}

// Operators stand between spaces, everything else is a word, a bracket or belongs to the word it
// touches.
std::vector<Token> Tokenize(std::string_view text) {
  std::vector<Token> tokens;
  std::vector<bool> angles;  // open brackets: whether they are template arguments'
  for (size_t i = 0; i < text.size();) {
    Token token;
    while (i < text.size() && text[i] == ' ') ++i, ++token.spaces;
    if (i == text.size()) break;
    size_t end = i + 1;
    const char c = text[i];
    const bool touches = token.spaces == 0 && !tokens.empty() && IsWord(tokens.back().text.back());
    if (c == '(' || c == '[' || c == '{' || (c == '<' && touches)) {
      token.opens = true;
      token.is_template = c == '<';
      angles.push_back(token.is_template);
    } else if (c == ')' || c == ']' || c == '}' ||
               (c == '>' && token.spaces == 0 && !angles.empty() && angles.back())) {
      token.closes = true;
      token.is_template = c == '>';
      if (!angles.empty()) angles.pop_back();
    } else if (c == ',' || c == ';') {
      token.precedence = PrecedenceOf(text.substr(i, 1));
    } else {
      while (end < text.size() && text[end] != ' ' &&
             std::string_view("()[]{},;").find(text[end]) == std::string_view::npos &&
             !(text[end] == '<' && IsWord(text[end - 1])) &&
             !(text[end] == '>' && text[end - 1] != '-' && !angles.empty() && angles.back()))
        ++end;
      const bool spaced = token.spaces > 0 && end < text.size() && text[end] == ' ';
      if (spaced) token.precedence = PrecedenceOf(text.substr(i, end - i));
      token.is_ternary = token.precedence == kConditional;
    }
    token.text = std::string(text.substr(i, end - i));
    tokens.push_back(std::move(token));
    i = end;
  }
  return tokens;
}

// Finds the operations of a statement: where each begins and ends, and how tightly it binds.
class OperationParser {
 public:
  explicit OperationParser(std::vector<Token>& tokens) : tokens_(tokens) {}
  void Parse() {
    while (at_ < tokens_.size()) {
      ParseFrom(kSemicolon);
      ++at_;
    }
  }

 private:
  bool AtEnd() const { return at_ >= tokens_.size(); }

  void AddOperation(size_t start, int precedence) {
    tokens_[start].starts.insert(tokens_[start].starts.begin(), precedence);
    ++tokens_[at_ - 1].ends;
  }

  void ParseConditional() {
    const size_t start = at_;
    ParseFrom(kLogicalOr);
    if (AtEnd() || tokens_[at_].text != "?") return;
    ++at_;
    ParseFrom(kAssignment);
    if (AtEnd() || !tokens_[at_].is_ternary) return;
    ++at_;
    ParseFrom(kAssignment);
    AddOperation(start, kConditional);
  }

  void ParseFrom(int precedence) {
    if (AtEnd() || precedence >= kTightest + 1) return;
    if (precedence == kConditional) return ParseConditional();
    const size_t start = at_;
    std::vector<size_t> operators;
    while (!AtEnd()) {
      ParseFrom(precedence + 1);
      if (AtEnd() || tokens_[at_].closes) break;
      const int found = tokens_[at_].precedence;
      if (found != kNone && found < precedence) break;
      if (found == kConditional && precedence == kAssignment && tokens_[at_].text == ":") break;
      if (tokens_[at_].opens) {
        while (!AtEnd() && !tokens_[at_].closes) {
          ++at_;
          ParseFrom(kSemicolon);
        }
        ++at_;
      } else {
        if (found == precedence) operators.push_back(at_);
        ++at_;
      }
    }
    for (const size_t op : operators) tokens_[op].has_two_operands = operators.size() == 1;
    if (!operators.empty() && (!AtEnd() || precedence > 0)) AddOperation(start, precedence);
  }

  std::vector<Token>& tokens_;
  size_t at_ = 0;
};

int Arguments(ArrayRef<Token> tokens, size_t open) {
  int depth = 0, count = 1;
  for (size_t i = open; i < tokens.size(); ++i) {
    depth += tokens[i].opens - tokens[i].closes;
    if (depth == 0) break;
    if (depth == 1 && tokens[i].precedence == kComma) ++count;
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
      split = kConditional;
    } else if (left.precedence != kNone && !left.is_ternary) {
      split = left.precedence == kAssignment && is_for ? 4 : left.precedence;
    }
    const bool possible = split > 0 || (left.text == ";" && !token.closes);
    if (possible) token.penalty = kDepth * strength + split;
    if (token.closes) strength -= token.text == ")" || token.text == "}" ? 1 : kTight;
  }
}

// What is open around the next token: brackets and operations.
struct Level {
  int indent = 0, last_space = 0, start_of_call = 0, question_column = 0;
  bool is_broken = false;         // a line begins at this level
  bool is_broken_inside = false;  // a line begins deeper, so that the next operator ends its line
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

  // Which tokens begin lines, and at which columns.
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

  // What follows a broken left side, or a broken argument, begins a line.
  bool MustBreak(const State& state) const {
    if (!CanBreak(state) || !state.levels.back().is_broken_inside) return false;
    const Token& left = tokens_[state.next - 1];
    if (left.precedence == kComma || left.precedence == kSemicolon) return true;
    const bool is_comparison = left.precedence == kEquality || left.precedence == kRelational;
    const bool behind_operation = state.next >= 2 && tokens_[state.next - 2].ends > 0;
    return left.precedence > kConditional && (!is_comparison || behind_operation);
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
    const bool is_operator = left.precedence > kConditional;
    if (left.precedence == kComma || left.precedence == kSemicolon || is_operator)
      level.is_broken_inside = false;
    if (token.text == "?" || left.text == "?") level.is_broken_inside = true;
    level.last_space = state.column;
    for (size_t i = 0; i + 1 < state.levels.size(); ++i) state.levels[i].is_broken_inside = true;
    if (left.precedence != kComma && left.precedence != kSemicolon && !is_operator && !left.opens)
      level.is_broken_inside = true;
    return penalty + Move(state, state.next);
  }

  int64_t OnSameLine(State& state) {
    const Token& token = tokens_[state.next];
    const Token& left = tokens_[state.next - 1];
    Level& level = state.levels.back();
    if (left.opens) level.indent = state.column + token.spaces;
    // An operand that stays in the line of its operator is in one piece.
    const bool is_operator = left.precedence > kConditional;
    if (((is_operator && left.precedence != kRelational) || left.precedence == kComma ||
         left.text == ":") &&
        !(is_operator && left.has_two_operands))
      level.keeps_operand_together = true;
    state.column += token.spaces;
    if (left.text == "(" && state.next >= 2 &&
        (tokens_[state.next - 2].text == "if" || tokens_[state.next - 2].text == "for"))
      level.last_space = state.column;
    else if (left.precedence == kComma)
      level.last_space = state.column;
    else if ((is_operator || left.is_ternary) ||
             (left.precedence == kAssignment && !token.starts.empty()))
      level.last_space = state.column;
    return Move(state, state.next);
  }

  // Past a token that stands at the state's column.
  int64_t Move(State& state, size_t at) const {
    const Token& token = tokens_[at];
    if (token.precedence != kNone) state.levels.back().keeps_operand_together = false;
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
    bool is_indented = !(left && (left->opens || left->text == ";" ||
                                  left->precedence == kAssignment || left->text == "return"));
    for (const int precedence : tokens_[at].starts) {
      Level level = state.levels.back();
      level.is_broken = false;
      level.keeps_together |= level.keeps_operand_together;
      level.keeps_operand_together = false;
      level.indent = std::max({state.column, level.indent, state.levels.back().last_space});
      if (precedence > kSemicolon) level.last_space = std::max(level.last_space, state.column);
      if (precedence != kConditional) level.start_of_call = state.column;
      if (precedence == kConditional || (is_indented && precedence > kAssignment))
        level.indent += kContinuation;
      if ((left && !left->opens) || precedence != kComma) level.is_broken_inside = false;
      state.levels.push_back(level);
      is_indented = true;
    }
  }

  ArrayRef<Token> tokens_;
  int indent_;
  int column_of_break_ = 0;
};

// The lines of a list in braces whose first item stands at `column`: as few as columns of items
// allow.
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

// `name = {item, item, ...};`
std::vector<std::string> BreakList(std::string_view text, int indent) {
  const size_t open = text.find('{');
  const std::string head(text.substr(0, open + 1));
  std::vector<std::string> items;
  const size_t close = text.find('}');
  for (size_t at = open + 1; at < close;) {
    const size_t end = std::min(text.find(", ", at), close);
    items.emplace_back(text.substr(at, end - at + (end < close)));
    at = end + 2;
  }
  const int behind = indent + static_cast<int>(head.size()), below = indent + kContinuation;
  std::vector<std::string> lines = LayOutItems(items, behind);
  const std::vector<std::string> others = LayOutItems(items, below);
  const bool is_below = others.size() + 1 < lines.size();  // a line for its brace
  if (is_below) lines = others;
  for (size_t i = is_below ? 0 : 1; i < lines.size(); ++i)
    lines[i].insert(0, is_below ? below : behind, ' ');
  if (is_below)
    lines.insert(lines.begin(), head);
  else
    lines[0] = head + lines[0];
  lines.back() += text.substr(close);
  return lines;
}

}  // namespace

std::vector<std::string> BreakStatement(std::string_view text, int indent, bool is_signature) {
  if (static_cast<int>(text.size()) + indent <= kColumns) return {std::string(text)};
  if (text.ends_with("};")) return BreakList(text, indent);
  std::vector<Token> tokens = Tokenize(text);
  OperationParser(tokens).Parse();
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
