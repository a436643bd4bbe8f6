#pragma once

#include <optional>
#include <string>

#include "compiler/index/expr.h"

namespace fusec {

// Variables of kernels and of proofs in Exprs: symbols that no dim can be, whatever dims are
// called.

Expr Variable(const std::string& name);
// The symbol of that variable, and back; nullopt of a dim.
std::string VariableSymbol(const std::string& name);
std::optional<std::string> VariableOf(const std::string& symbol);
// A variable whose bounds `ranges` know from now on.
Expr SetVariable(Ranges& ranges, const std::string& name, const Expr& low, const Expr& high);

}  // namespace fusec
