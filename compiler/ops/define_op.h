#pragma once

#include "compiler/ir/integer_facts.h"
#include "compiler/ir/op_def.h"

namespace fusec {

// Builds the OpFunctions of an op from the members that `Op` defines: the functions Import, Infer,
// Reference, Lower and Decompose, the list kAttributes, and the list kDefaults of float attributes
// with default values.
template <class Op>
OpFunctions FunctionsOf() {
  OpFunctions functions;
  if constexpr (requires { &Op::Import; }) functions.import = &Op::Import;
  if constexpr (requires { &Op::Reference; }) functions.reference = &Op::Reference;
  if constexpr (requires { &Op::Lower; }) functions.lower = &Op::Lower;
  if constexpr (requires { &Op::Decompose; }) functions.decompose = &Op::Decompose;
  functions.infer = &Op::Infer;
  if constexpr (requires { Op::kDefaults; }) {
    for (const auto& attribute : Op::kDefaults)
      functions.attributes.push_back({attribute.name, "float"});
  }
  if constexpr (requires { Op::kAttributes; }) {
    for (const AttributeSpec& attribute : Op::kAttributes)
      functions.attributes.push_back(attribute);
  }
  return functions;
}

// Builds the IntegerFacts from the members Symbolic, OperandLimit, UseOfIndices and kKeepsOrder.
template <class Op>
IntegerFacts IntegerFactsOf() {
  IntegerFacts facts;
  if constexpr (requires { &Op::Symbolic; }) facts.symbolic = &Op::Symbolic;
  if constexpr (requires { &Op::OperandLimit; }) facts.operand_limit = &Op::OperandLimit;
  if constexpr (requires { &Op::UseOfIndices; }) facts.index_use = &Op::UseOfIndices;
  if constexpr (requires { Op::kKeepsOrder; }) facts.keeps_order = Op::kKeepsOrder;
  return facts;
}

#define FUSEC_DEFINE_OP(Kind)                                      \
  OpFunctions Kind##Functions() { return FunctionsOf<Kind##Op>(); } \
  IntegerFacts Kind##IntegerFacts() { return IntegerFactsOf<Kind##Op>(); }

}  // namespace fusec
