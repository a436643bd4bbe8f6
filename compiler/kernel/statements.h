#pragma once

#include "compiler/kernel/kernel_plan.h"

namespace fusec {

// Iteration over the statements of a kernel.

// Calls visit(expr) for each expression of a statement, but not for those of the statements inside
// it.
template <class AnyStatement, class Visit>
void ForEachExpr(AnyStatement& statement, const Visit& visit) {
  visit(statement.type);
  visit(statement.place);
  visit(statement.value);
  visit(statement.condition);
  visit(statement.step);
}

// Calls visit(statement) for each statement, and then for those inside it, recursively.
template <class Statements, class Visit>
void ForEachStatement(Statements& statements, const Visit& visit) {
  for (auto& statement : statements) {
    visit(statement);
    ForEachStatement(statement.body, visit);
    ForEachStatement(statement.otherwise, visit);
  }
}

// The name of the local that a statement declares; the local may be an array.
inline std::string LocalName(const Statement& declaration) {
  CExpr place = declaration.place;
  while (place.kind() == CExpr::Kind::kSubscript) place = CExpr(place.operand(0));
  return place.word().substr(0, place.word().find('['));
}

}  // namespace fusec
