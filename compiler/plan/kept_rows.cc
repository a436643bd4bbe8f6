#include "compiler/plan/kept_rows.h"

#include <algorithm>

#include "compiler/ops/c_text.h"
#include "compiler/plan/block_stages.h"

namespace fusec {

namespace {

// How many elements lie together: those that a loop runs along while its threads stand at different
// runs; 0 where no gaps are needed.
int64_t RunOf(const Node& region, const Value* value, const Shape& rows) {
  int64_t run = 0;
  const auto consider = [&](const Shape& shape) {
    if (shape.size() < rows.size() + 2) return;
    run = std::max(run, shape.back().AsConstant().value_or(0));
  };
  consider(value->type.shape);
  for (const auto& node : region.body->nodes) {
    if (node->kind == OpKind::kReshape && node->operand(0) == value)
      consider(node->result()->type.shape);
  }
  const bool meets = run > 0 && run % 8 == 0 && ElementsPerRow(value, rows) % run == 0;
  return meets ? run : 0;
}

// Names of what the positions in an array with gaps are made of.
void NameGaps(CExpressionWriter& names, const Value* value, const std::string& name,
              int64_t elements, const RegionLowering::KeptRows& kept) {
  const int64_t pitch = kept.run + kept.gap, lanes = KeptLanes(value);
  names.NameConstant(elements, name + "_places",
                     "of one row, with " + std::to_string(kept.gap) + " left free behind every " +
                         std::to_string(kept.run) + ", so that banks differ");
  names.NameConstant(pitch, name + "_pitch", "from one run to the next");
  names.SuggestName(pitch * lanes, name + "_lanes_pitch",
                    "from one run to the one " + std::to_string(lanes) + " further on");
  names.SuggestName(kept.gap, name + "_gap", "left free behind a run");
  const Shape& shape = value->type.shape;
  Expr stride = 1;
  for (size_t axis = shape.size(); axis-- > kept.row_rank + 1;) {
    stride = stride * shape[axis];
    if (const int64_t step = *stride.AsConstant(); step > kept.run && step % kept.run == 0)
      names.NameConstant(step + step / kept.run * kept.gap,
                         name + "_step_" + std::to_string(axis - 1),
                         "of axis " + std::to_string(axis - 1) + ", with what is left free");
  }
}

}  // namespace

int64_t KeptLanes(const Value* value) {
  constexpr int kVectorBytes = 16;
  return kVectorBytes / std::max(4, DtypeBytes(value->type.dtype));
}

RegionLowering::KeptRows PlaceKeptRows(const Node& region, const Value* value, const Shape& rows,
                                       bool vector_gaps) {
  return {"", rows.size(), RunOf(region, value, rows), vector_gaps ? KeptLanes(value) : 1};
}

void DeclareKeptRows(KernelBuilder& builder, const Value* value, const std::string& rows_per_block,
                     RegionLowering::KeptRows& kept) {
  const std::string name = FriendlyName(value->name);
  kept.array = builder.Unique(name + "_rows");
  const Shape& shape = value->type.shape;
  const Shape rows(shape.begin(), shape.begin() + static_cast<int64_t>(kept.row_rank));
  int64_t elements = ElementsPerRow(value, rows);
  builder.expressions().NameConstant(elements, name + "_elements",
                                     "of one row of \"" + name + "\"");
  if (kept.run > 0) {
    elements += elements / kept.run * kept.gap;
    NameGaps(builder.expressions(), value, name, elements, kept);
  }
  const std::string row = builder.Write(Expr(elements));
  const std::string places = rows_per_block.empty() ? row
                             : elements == 1        ? rows_per_block
                                                    : rows_per_block + " * " + row;
  const bool has_vectors = elements % KeptLanes(value) == 0;
  builder.Append(
      {Statement::Kind::kDeclare,
       (has_vectors ? "alignas(16) __shared__ " : "__shared__ ") + CTypeName(value->type.dtype),
       kept.array + "[" + places + "]",
       "",
       {},
       {}});
}

}  // namespace fusec
