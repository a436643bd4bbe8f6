#include "runtime/src/artifact/dim_expression.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace fusec::runtime {
namespace {

constexpr int kMaxStack = 64;    // values on the stack during evaluation
constexpr int kMaxNesting = 64;  // depth of nested parentheses, calls and signs

int64_t FloorDivide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

bool IsNameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsNamePart(char c) {
  return IsNameStart(c) || std::isdigit(static_cast<unsigned char>(c)) || c == '.' || c == '$';
}

}  // namespace

// Recursive descent over: sum = product {(+|-) product}, product = factor {* factor},
// factor = integer | name | name(sum, sum) | (sum) | -factor.
class DimParser {
 public:
  DimParser(std::string_view text, std::span<const std::string> symbols)
      : text_(text), symbols_(symbols) {}

  StatusOr<DimExpression> Parse() {
    if (!Sum() || (Skip(), at_ != text_.size())) {
      if (error_.empty()) error_ = Text("unexpected text at column ", at_ + 1);
      return Fail(FUSEC_BAD_ARTIFACT, "bad dim expression \"", text_, "\": ", error_);
    }
    DimExpression result;
    result.text_ = std::string(text_);
    result.program_ = std::move(program_);
    return result;
  }

 private:
  using Op = DimExpression::Op;

  void Skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool Take(char c) {
    Skip();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool Expect(char c) {
    if (Take(c)) return true;
    return Error(Text("expected '", c, "' at column ", at_ + 1));
  }
  bool Error(std::string message) {
    if (error_.empty()) error_ = std::move(message);
    return false;
  }
  bool Push(Op op, int64_t operand) {
    if (++depth_ > kMaxStack) return Error("too deeply nested");
    program_.push_back({op, operand});
    return true;
  }
  bool Combine(Op op) {
    --depth_;
    program_.push_back({op, 0});
    return true;
  }

  bool Sum() {
    if (!Product()) return false;
    while (true) {
      if (Take('+')) {
        if (!Product() || !Combine(Op::kAdd)) return false;
      } else if (Take('-')) {
        if (!Product() || !Combine(Op::kSubtract)) return false;
      } else {
        return true;
      }
    }
  }
  bool Product() {
    if (!Factor()) return false;
    while (Take('*')) {
      if (!Factor() || !Combine(Op::kMultiply)) return false;
    }
    return true;
  }
  bool Factor() {
    if (++nesting_ > kMaxNesting) return Error("too deeply nested");
    const bool good = FactorInside();
    --nesting_;
    return good;
  }
  bool FactorInside() {
    Skip();
    if (at_ == text_.size()) return Error("it ends too early");
    const char c = text_[at_];
    if (Take('(')) return Sum() && Expect(')');
    if (std::isdigit(static_cast<unsigned char>(c))) return Integer();
    if (IsNameStart(c)) return Name();
    if (c != '-') return Error(Text("unexpected '", c, "' at column ", at_ + 1));
    ++at_;
    // A sign directly before a digit belongs to the number, so that the smallest int64 can be
    // written.
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) {
      --at_;
      return Integer();
    }
    return Push(Op::kConstant, 0) && Factor() && Combine(Op::kSubtract);
  }
  bool Integer() {
    int64_t value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, code] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (code != std::errc()) return Error(Text("number out of range at column ", at_ + 1));
    at_ += static_cast<size_t>(end - begin);
    return Push(Op::kConstant, value);
  }
  bool Name() {
    const size_t begin = at_;
    while (at_ < text_.size() && IsNamePart(text_[at_])) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    if (Take('(')) return Call(name);
    const auto symbol = std::find(symbols_.begin(), symbols_.end(), name);
    if (symbol == symbols_.end()) return Error(Text("unknown symbol \"", name, "\""));
    return Push(Op::kSymbol, symbol - symbols_.begin());
  }
  bool Call(std::string_view name) {
    Op op;
    if (name == "floordiv") op = Op::kFloorDiv;
    else if (name == "mod") op = Op::kMod;
    else if (name == "min") op = Op::kMin;
    else if (name == "max") op = Op::kMax;
    else return Error(Text("unknown function \"", name, "\""));
    return Sum() && Expect(',') && Sum() && Expect(')') && Combine(op);
  }

  std::string_view text_;
  std::span<const std::string> symbols_;
  size_t at_ = 0;
  int depth_ = 0, nesting_ = 0;
  std::vector<DimExpression::Instruction> program_;
  std::string error_;
};

StatusOr<DimExpression> DimExpression::Parse(std::string_view text,
                                             std::span<const std::string> symbols) {
  return DimParser(text, symbols).Parse();
}

StatusOr<int64_t> DimExpression::Evaluate(std::span<const int64_t> values) const {
  int64_t stack[kMaxStack];
  int top = 0;
  for (const Instruction& instruction : program_) {
    if (instruction.op == Op::kConstant) {
      stack[top++] = instruction.operand;
      continue;
    }
    if (instruction.op == Op::kSymbol) {
      const auto symbol = static_cast<size_t>(instruction.operand);
      if (symbol >= values.size())
        return Fail(FUSEC_BAD_ARTIFACT, "the dim ", text_, " is no constant");
      stack[top++] = values[symbol];
      continue;
    }
    const int64_t b = stack[--top];
    int64_t& a = stack[top - 1];
    bool overflow = false;
    switch (instruction.op) {
      case Op::kAdd: overflow = __builtin_add_overflow(a, b, &a); break;
      case Op::kSubtract: overflow = __builtin_sub_overflow(a, b, &a); break;
      case Op::kMultiply: overflow = __builtin_mul_overflow(a, b, &a); break;
      case Op::kFloorDiv:
      case Op::kMod:
        if (b == 0) return Fail(FUSEC_BAD_INPUT, "division by zero in the dim ", text_);
        // INT64_MIN / -1 is the only quotient that does not fit into 64 bits, and it traps.
        if (b == -1 && instruction.op == Op::kMod) a = 0;
        else if (b == -1) overflow = __builtin_sub_overflow(int64_t{0}, a, &a);
        else if (instruction.op == Op::kMod) a -= FloorDivide(a, b) * b;
        else a = FloorDivide(a, b);
        break;
      case Op::kMin: a = std::min(a, b); break;
      case Op::kMax: a = std::max(a, b); break;
      case Op::kConstant:
      case Op::kSymbol: break;
    }
    if (overflow) return Fail(FUSEC_BAD_INPUT, "the dim ", text_, " does not fit in 64 bits");
  }
  return stack[0];
}

int DimExpression::AsSymbol() const {
  const bool plain = program_.size() == 1 && program_[0].op == Op::kSymbol;
  return plain ? static_cast<int>(program_[0].operand) : -1;
}

bool DimExpression::IsConstant() const { return Symbols().empty(); }

std::vector<int> DimExpression::Symbols() const {
  std::vector<int> symbols;
  for (const Instruction& instruction : program_) {
    if (instruction.op != Op::kSymbol) continue;
    const int symbol = static_cast<int>(instruction.operand);
    if (std::find(symbols.begin(), symbols.end(), symbol) == symbols.end())
      symbols.push_back(symbol);
  }
  return symbols;
}

}  // namespace fusec::runtime
