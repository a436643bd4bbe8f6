#include "compiler/plan/kept_rows.h"

#include <algorithm>

#include "compiler/ops/c_text.h"
#include "compiler/plan/plan_region.h"

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

int64_t KeptBytesWithGaps(const Node& region, const std::vector<BlockStage>& stages,
                          const Shape& rows) {
  int64_t bytes = 0;
  for (const BlockStage& stage : stages) {
    const RegionLowering::KeptRows kept = PlaceKeptRows(region, stage.value, rows, true);
    const int64_t element = std::max(4, DtypeBytes(stage.value->type.dtype));
    if (stage.kept)
      bytes += element * *kept.Places(ElementsPerRow(stage.value, rows), {}).AsConstant();
  }
  return bytes;
}

bool KeepsLinesTogether(const Node& region, const std::vector<BlockStage>& stages,
                        const Shape& rows) {
  return std::all_of(stages.begin(), stages.end(), [&](const BlockStage& stage) {
    const Node& product = *stage.value->producer;
    if (!stage.by_tensor_cores) return true;
    const Value* const matrices[] = {product.operand(0), product.operand(1), stage.value};
    return std::all_of(std::begin(matrices), std::end(matrices), [&](const Value* matrix) {
      const int64_t run = PlaceKeptRows(region, matrix, rows, true).run;
      return run == 0 || matrix->type.shape.back().IsConstant(run);
    });
  });
}

void PlanKeptProduct(const Node& product, const RegionLowering::KeptRows& left,
                     const RegionLowering::KeptRows& right, const RegionLowering::KeptRows& sums,
                     const std::string& row_count, const std::string& precision,
                     KernelBuilder& builder) {
  builder.Use("tensor_core.cuh");
  builder.Use("kept_product.cuh");
  CExpressionWriter& names = builder.expressions();
  const Value *a = product.operand(0), *b = product.operand(1), *d = product.result();
  const std::string name = FriendlyName(d->name);
  const auto extent = [&](const Value* value, size_t axis) {
    return *value->type.shape[sums.row_rank + axis].AsConstant();
  };
  const std::string lines = names.OwnConstant(name + "_lines", extent(d, 0), "of each product");
  const std::string columns = names.OwnConstant(name + "_columns", extent(d, 1), "of each product");
  const std::string depth = names.OwnConstant(name + "_depth", extent(a, 1), "terms of each sum");
  // As its device function takes it, with lines of `width` elements.
  const auto matrices = [&](const Value* value, const RegionLowering::KeptRows& kept,
                            const std::string& width) {
    const Shape matrix(value->type.shape.begin() + static_cast<int64_t>(kept.row_rank),
                       value->type.shape.end());
    const Expr pitch = kept.Places(matrix[1], builder.ranges());
    const Expr places = kept.Places(Product(matrix), builder.ranges());
    return "{" + kept.array + ", " + (kept.run > 0 ? builder.Write(pitch) : width) + ", " +
           builder.Write(places) + "}";
  };
  // Halves are numbers of TF32, too.
  const std::string arithmetic = d->type.dtype == Dtype::kF32
                                     ? TensorCoreArithmetic(Dtype::kF32, precision)
                                     : "Arithmetic::kTf32";
  builder.AppendCall("MultiplyKeptMatrices<" + arithmetic + ", " + lines + ", " + columns + ", " +
                     depth + ", " + BlockSizeName(builder) + ">(" + matrices(a, left, depth) +
                     ", " + matrices(b, right, depth) + ", " + matrices(d, sums, columns) + ", " +
                     row_count + ")");
}

}  // namespace fusec
