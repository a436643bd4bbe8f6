#include <charconv>
#include <string>
#include <string_view>

#include "compiler/index/expr.h"

namespace fusec {

namespace {

constexpr int kMaxDepth = 200;  // of parentheses, so that a hostile text cannot exhaust the stack

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameCharacter(char c) { return IsLetter(c) || IsDigit(c) || c == '.' || c == '$'; }

constexpr size_t kMaxTerms = 1000;  // of a product, so that it cannot exhaust memory

// sum = ["-"] product { ("+" | "-") product } product = factor { ("*" | "/") factor } factor =
// integer | "-" factor | "(" sum ")" | name | function "(" sum "," sum ")"
class ExprParser {
 public:
  explicit ExprParser(std::string_view text) : text_(text) {}

  Result<Expr> ParseAll() {
    FUSEC_ASSIGN(Expr sum, ParseSum());
    SkipSpace();
    if (position_ != text_.size()) return Unexpected("\"+\", \"-\", \"*\" or the end");
    return sum;
  }

 private:
  void SkipSpace() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\t')) {
      ++position_;
    }
  }

  bool Accept(char c) {
    SkipSpace();
    if (position_ == text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  tl::unexpected<Error> FailHere(const std::string& what) const {
    return ModelError("expression \"" + std::string(text_) + "\", column " +
                      std::to_string(position_ + 1) + ": " + what);
  }

  tl::unexpected<Error> Unexpected(const std::string& expected) {
    SkipSpace();
    const std::string found = position_ == text_.size()
                                  ? "the end"
                                  : "\"" + std::string(text_.substr(position_, 1)) + "\"";
    return FailHere("found " + found + ", expected " + expected);
  }

  Result<Expr> ParseSum() {
    if (++depth_ > kMaxDepth) return FailHere("nested deeper than " + std::to_string(kMaxDepth));
    FUSEC_ASSIGN(Expr sum, ParseProduct(Accept('-')));
    while (true) {
      const bool plus = Accept('+');
      if (!plus && !Accept('-')) break;
      FUSEC_ASSIGN(const Expr product, ParseProduct(!plus));
      sum = sum + product;
    }
    --depth_;
    return sum;
  }

  // The sign goes to the first factor, so that -9223372036854775808 can be read.
  Result<Expr> ParseProduct(bool negative) {
    FUSEC_ASSIGN(Expr product, ParseFactor(negative));
    while (true) {
      const bool quotient = Accept('/');
      if (!quotient && !Accept('*')) break;
      FUSEC_ASSIGN(const Expr factor, ParseFactor(false));
      if (quotient) {
        product = FloorDiv(product, factor, Ranges());
        continue;
      }
      if (product.terms().size() * factor.terms().size() > kMaxTerms)
        return FailHere("multiplied out it has more than " + std::to_string(kMaxTerms) + " terms");
      product = product * factor;
    }
    return product;
  }

  Result<Expr> ParseFactor(bool negative) {
    while (Accept('-')) negative = !negative;
    SkipSpace();
    const char c = position_ < text_.size() ? text_[position_] : '\0';
    if (IsDigit(c)) return ParseInteger(negative);
    Expr value;
    if (IsLetter(c)) {
      FUSEC_ASSIGN(value, ParseName());
    } else if (Accept('(')) {
      FUSEC_ASSIGN(value, ParseSum());
      if (!Accept(')')) return Unexpected("\")\"");
    } else {
      return Unexpected("an integer, a name or \"(\"");
    }
    return negative ? -value : value;
  }

  Result<Expr> ParseInteger(bool negative) {
    size_t end = position_;
    while (end < text_.size() && IsDigit(text_[end])) ++end;
    const std::string digits =
        (negative ? "-" : "") + std::string(text_.substr(position_, end - position_));
    int64_t value = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc()) {
      return FailHere("integer " + digits + " does not fit 64 bits");
    }
    position_ = end;
    return Expr(value);
  }

  Result<Expr> ParseName() {
    const size_t begin = position_;
    while (position_ < text_.size() && IsNameCharacter(text_[position_])) ++position_;
    const std::string name(text_.substr(begin, position_ - begin));
    if (!Accept('(')) return Expr::Symbol(name);
    using Function = Expr (*)(const Expr&, const Expr&, const Ranges&);
    const Function function = name == "floordiv" ? &FloorDiv
                              : name == "mod"    ? &Mod
                              : name == "min"    ? &Min
                              : name == "max"    ? &Max
                                                 : Function(nullptr);
    if (function == nullptr) {
      position_ = begin;
      return FailHere("found function \"" + name + "\", expected floordiv, mod, min or max");
    }
    FUSEC_ASSIGN(const Expr left, ParseSum());
    if (!Accept(',')) return Unexpected("\",\"");
    FUSEC_ASSIGN(const Expr right, ParseSum());
    if (!Accept(')')) return Unexpected("\")\"");
    return function(left, right, Ranges());
  }

  std::string_view text_;
  size_t position_ = 0;
  int depth_ = 0;
};

}  // namespace

Result<Expr> Expr::Parse(std::string_view text) { return ExprParser(text).ParseAll(); }

}  // namespace fusec
