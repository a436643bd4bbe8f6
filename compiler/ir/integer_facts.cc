#include "compiler/ir/integer_facts.h"

namespace fusec {

const IntegerFacts& IntegerFactsOf(OpKind kind) {
  static const std::vector<IntegerFacts> facts = {
#define FUSEC_OP(Kind, text, onnx, operands, Class, algebra) Kind##IntegerFacts(),
#include "compiler/ir/op_list.def"
#undef FUSEC_OP
  };
  return facts[static_cast<size_t>(kind)];
}

}  // namespace fusec
