#pragma once

#include <optional>

#include "compiler/ir/graph.h"

namespace fusec {

// What an element of an integer result is as an expression of the graph's symbols. Models compute
// shapes so.
struct SymbolicContext {
  const Node& node;
  ArrayRef<int64_t> index;  // of the result's element
  // Of a pointwise op the element of each operand that meets it, of a reduction all that it folds.
  ArrayRef<Expr> operands;
  const Ranges& ranges;
};

// What the integers of one operand must stay below, so that those of the result stay below `limit`.
struct LimitContext {
  struct Interval {
    int64_t least = 0, greatest = 0;
  };
  int operand = 0;
  Dtype dtype = Dtype::kI64;             // of the operand
  const std::optional<Expr>& limit;      // nullopt: the result may be anything
  const std::optional<Interval>& other;  // of a binary op's other operand, if it is known
  const Ranges& ranges;
};

// What an op asks of an operand whose integers choose places.
struct IndexUse {
  Exprs limits;              // each of which they must stay below
  bool ascend = false;       // along their last axis, as the bounds of bags do
};

// What an op says of integers, each of its own: a member is null, or gives nullopt, where there is
// nothing to tell. Views and gathers need not say where their elements come from
// (element_sources.h).
struct IntegerFacts {
  std::optional<Expr> (*symbolic)(const SymbolicContext&) = nullptr;    // pointwise, reductions
  std::optional<Expr> (*operand_limit)(const LimitContext&) = nullptr;  // pointwise, sorts
  std::optional<IndexUse> (*index_use)(const Node&, int operand) = nullptr;
  bool keeps_order = false;  // a result never falls where an operand grows, but for overflow
};

const IntegerFacts& IntegerFactsOf(OpKind kind);

#define FUSEC_OP(Kind, text, onnx, operands, Class, algebra) IntegerFacts Kind##IntegerFacts();
#include "compiler/ir/op_list.def"
#include "compiler/support/adt.h"
#undef FUSEC_OP

}  // namespace fusec
