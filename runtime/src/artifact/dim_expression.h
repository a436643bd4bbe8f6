#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/src/status.h"

namespace fusec::runtime {

// A size that depends on the program's symbols, such as "batch*27 + 351". It is parsed once, when
// the artifact is loaded, into a postfix program.
class DimExpression {
 public:
  DimExpression() = default;  // the constant 0

  // Grammar: + - * ( ) integers, names, floordiv(a, b), mod(a, b), min(a, b), max(a, b). A name
  // must be one of `symbols`. Errors are FUSEC_BAD_ARTIFACT.
  static StatusOr<DimExpression> Parse(std::string_view text, std::span<const std::string> symbols);

  // Evaluates the expression. `values` holds one number per symbol; if it is empty, the expression
  // must be constant (otherwise FUSEC_BAD_ARTIFACT). Overflow of 64 bits and division by zero are
  // FUSEC_BAD_INPUT errors. floordiv rounds toward minus infinity, mod has the sign of the divisor.
  StatusOr<int64_t> Evaluate(std::span<const int64_t> values) const;

  const std::string& text() const { return text_; }
  bool operator==(const DimExpression& other) const { return text_ == other.text_; }
  int AsSymbol() const;        // the symbol's index if it is just a symbol, else -1
  bool IsConstant() const;     // whether it has no symbol
  std::vector<int> Symbols() const;  // in order of appearance, without repeats

 private:
  friend class DimParser;
  enum class Op : uint8_t {
    kConstant, kSymbol, kAdd, kSubtract, kMultiply, kFloorDiv, kMod, kMin, kMax
  };
  struct Instruction {
    Op op;
    int64_t operand = 0;  // kConstant: the number; kSymbol: the symbol's index
  };
  std::string text_ = "0";
  std::vector<Instruction> program_ = {{Op::kConstant, 0}};
};

}  // namespace fusec::runtime
