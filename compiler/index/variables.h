#pragma once

#include <optional>
#include <string>

#include "compiler/index/expr.h"

namespace fusec {

// Variables of kernels and of proofs, as symbols of Exprs. Their symbols never collide with those
// of dims, whatever names dims have.

Expr Variable(const std::string& name);
// VariableSymbol gives the symbol of a variable, VariableOf the variable of a symbol (nullopt if
// the symbol is a dim).
std::string VariableSymbol(const std::string& name);
std::optional<std::string> VariableOf(const std::string& symbol);
// A variable; its bounds are added to `ranges`.
Expr SetVariable(Ranges& ranges, const std::string& name, const Expr& low, const Expr& high);

}  // namespace fusec
