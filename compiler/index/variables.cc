#include "compiler/index/variables.h"

namespace fusec {

constexpr char kMark = '%';

Expr Variable(const std::string& name) { return Expr::Symbol(VariableSymbol(name)); }

std::string VariableSymbol(const std::string& name) { return name + kMark; }

std::optional<std::string> VariableOf(const std::string& symbol) {
  if (!symbol.ends_with(kMark)) return std::nullopt;
  return symbol.substr(0, symbol.size() - 1);
}

Expr SetVariable(Ranges& ranges, const std::string& name, const Expr& low, const Expr& high) {
  ranges.Set(VariableSymbol(name), low, high);
  return Variable(name);
}

}  // namespace fusec
