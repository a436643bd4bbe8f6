#pragma once

#include <optional>

#include "compiler/ir/graph.h"

namespace fusec {

// Context for computing one element of an integer result as an expression of the graph's symbols,
// as models compute shapes.
struct SymbolicContext {
  const Node& node;
  ArrayRef<int64_t> index;  // of the element in the result
  // For a pointwise op, the corresponding element of each operand; for a reduction, all elements
  // that it folds.
  ArrayRef<Expr> operands;
  const Ranges& ranges;
};

// Context for finding a limit for the integers of one operand such that those of the result stay
// below `limit`.
struct LimitContext {
  struct Interval {
    int64_t least = 0, greatest = 0;
  };
  int operand = 0;
  Dtype dtype = Dtype::kI64;             // of the operand
  const std::optional<Expr>& limit;      // nullopt: the result may be anything
  const std::optional<Interval>& other;  // range of a binary op's other operand, if known
  const Ranges& ranges;
};

// What an op requires of an operand whose integers are indices.
struct IndexUse {
  Exprs limits;         // the indices must stay below each of these
  bool ascend = false;  // they must ascend along their last axis, as bag bounds do
};

// Facts that an op declares about integers. A member is null, or returns nullopt, if it does not
// apply. Views and gathers need not declare where their elements come from (element_sources.h does
// that).
struct IntegerFacts {
  std::optional<Expr> (*symbolic)(const SymbolicContext&) = nullptr;    // pointwise, reductions
  std::optional<Expr> (*operand_limit)(const LimitContext&) = nullptr;  // pointwise, sorts
  std::optional<IndexUse> (*index_use)(const Node&, int operand) = nullptr;
  // Monotonic: results never decrease when operands grow (overflow aside).
  bool keeps_order = false;
};

const IntegerFacts& IntegerFactsOf(OpKind kind);

#define FUSEC_OP(Kind, text, onnx, operands, Class, algebra) IntegerFacts Kind##IntegerFacts();
#include "compiler/ir/op_list.def"
#include "compiler/support/adt.h"
#undef FUSEC_OP

}  // namespace fusec
