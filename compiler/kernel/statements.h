#pragma once

#include "compiler/kernel/kernel_plan.h"

namespace fusec {

// Ways through the statements of a kernel.

// Calls visit(expr) for each expression of a statement itself: for none of what it contains.
template <class AnyStatement, class Visit>
void ForEachExpr(AnyStatement& statement, const Visit& visit) {
  visit(statement.type);
  visit(statement.place);
  visit(statement.value);
  visit(statement.condition);
  visit(statement.step);
}

// Calls visit(statement) for each statement, and then for those that it contains.
template <class Statements, class Visit>
void ForEachStatement(Statements& statements, const Visit& visit) {
  for (auto& statement : statements) {
    visit(statement);
    ForEachStatement(statement.body, visit);
    ForEachStatement(statement.otherwise, visit);
  }
}

// What the local that a statement declares is called; it may be an array.
inline std::string LocalName(const Statement& declaration) {
  CExpr place = declaration.place;
  while (place.kind() == CExpr::Kind::kSubscript) place = CExpr(place.operand(0));
  return place.word().substr(0, place.word().find('['));
}

}  // namespace fusec
