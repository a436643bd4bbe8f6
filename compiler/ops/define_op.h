#pragma once

#include "compiler/ir/op_def.h"

namespace fusec {

// The members that `Op` has, as a table row. Members: Import, Infer, Reference, Lower, Decompose;
// of its attributes kAttributes, and of floats with a default kDefaults.
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

#define FUSEC_DEFINE_OP(Kind) \
  OpFunctions Kind##Functions() { return FunctionsOf<Kind##Op>(); }

}  // namespace fusec
