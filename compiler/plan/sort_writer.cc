#include "compiler/plan/sort_writer.h"

namespace fusec {

void SortWriter::StoreElement(const Exprs& place, const CExpr& value, const CExpr& at) {
  const Scalar results[] = {{value, node_.operand(0)->type.dtype}, {at, Dtype::kI64}};
  const auto& outputs = region_.body->outputs;  // values, positions or both, if they are used
  for (size_t i = 0; i < outputs.size(); ++i) {
    lowering_.Store(static_cast<int>(i), place, results[outputs[i]->result_index]);
  }
}

std::pair<Expr, Expr> SortWriter::LineAndPart(const CExpr& segment, const SortedParts& parts) {
  const CExpr count = builder_.Write(parts.parts, CountOf("parts", "of a line"));
  builder_.AppendLet("line", segment / count);
  builder_.AppendLet("part", segment % count);
  const Shape lines = Without(node_.operand(0)->type.shape, node_.Int("axis"));
  return {builder_.DefineVariable("line", 0, Product(lines) - 1),
          builder_.DefineVariable("part", 0, parts.parts - 1)};
}

}  // namespace fusec
