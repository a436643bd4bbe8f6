#include "compiler/plan/kept_rows.h"

#include <algorithm>

#include "compiler/ir/c_text.h"
#include "compiler/kernel/fold.h"
#include "compiler/kernel/idioms.h"
#include "compiler/plan/plan_region.h"
#include "compiler/region/product.h"

namespace fusec {

namespace {

// The number of elements of a run: a loop goes along a run while the threads are at different runs.
// 0 if no gaps are needed.
int64_t RunOf(const Node& region, const Value* value, ShapeRef rows, bool is_matrix) {
  if (is_matrix) {
    const int64_t line = value->type.shape.back().AsConstant().value_or(0);
    return line % 8 == 0 ? line : 0;
  }
  int64_t run = 0;
  const auto consider = [&](ShapeRef shape) {
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

}  // namespace

int64_t KeptLanes(const Value* value) {
  constexpr int kVectorBytes = 16;
  return kVectorBytes / std::max(4, DtypeBytes(value->type.dtype));
}

RegionLowering::KeptRows PlaceKeptRows(const Node& region, const Value* value, ShapeRef rows,
                                       bool vector_gaps, bool is_matrix) {
  return {"", rows.size(), RunOf(region, value, rows, is_matrix),
          vector_gaps ? KeptLanes(value) : 1};
}

bool IsMatrixOfTensorCores(ArrayRef<BlockStage> stages, const Value* value) {
  return std::any_of(stages.begin(), stages.end(), [&](const BlockStage& stage) {
    if (!stage.by_tensor_cores) return false;
    const Node& product = *stage.value->producer;
    return value == stage.value || value == product.operand(0) || value == product.operand(1);
  });
}

RegionLowering::KeptRows PlaceKeptWeights(const Node& region, const Value* weights) {
  RegionLowering::KeptRows kept =
      PlaceKeptRows(region, weights, {}, /*vector_gaps=*/true, /*is_matrix=*/false);
  kept.for_all_rows = true;
  return kept;
}

bool IsKeepableWeights(const Node& region, const Value* value) {
  const Graph& body = *region.body;
  const auto input = std::find_if(body.inputs.begin(), body.inputs.end(),
                                  [&](const auto& input) { return input.get() == value; });
  const bool is_taken = std::any_of(body.nodes.begin(), body.nodes.end(), [&](const auto& node) {
    return node->kind == OpKind::kMatMul && node->operand(1) == value;
  });
  return input != body.inputs.end() && is_taken && value->type.rank() == 2 &&
         IsConstant(region.operand(static_cast<int>(input - body.inputs.begin()))) &&
         IsMultiple(value->type.shape.back(), KeptLanes(value)) && ElementsPerRow(value, {}) > 0;
}

bool IsReadAlongDepth(const Node& region, const Value* weights) {
  const auto& nodes = region.body->nodes;
  return std::all_of(nodes.begin(), nodes.end(), [&](const auto& node) {
    return node->kind != OpKind::kMatMul || node->operand(1) != weights ||
           node->Int("transpose_b") != 0;
  });
}

void CopyKeptWeights(KernelBuilder& builder, const Value* weights, const CExpr& buffer,
                     const RegionLowering::KeptRows& kept, const CExpr& lanes_name) {
  builder.Use("async_copy.cuh");
  IndexWriter& names = builder.expressions();
  const std::string name = ModelName(weights->name);
  const SizeNames kept_sizes{name, "", true, KeptSizes(weights, kept), {}, {}};
  const int64_t lanes = KeptLanes(weights), vectors = ElementsPerRow(weights, {}) / lanes;
  const std::string each = lanes_name.ToString();
  const CExpr count =
      names.Constant(name + "_vectors", vectors, each + " elements each, of \"" + name + "\"");
  const bool once = vectors <= builder.plan().block_size;
  builder.Open(/*is_branch=*/once);
  if (once) builder.AppendLet("i", "threadIdx.x");
  builder.DefineVariable("i", 0, vectors - 1);
  names.NameFactor("i", lanes, lanes_name);
  const Expr first = Variable("i") * lanes;
  Expr place = first;
  if (kept.run > 0) {
    const int64_t of_line = kept.run / lanes;
    builder.AppendLet("line", "i" / names.Constant(name + "_line_vectors", of_line,
                                                   "vectors from one gap to the next"));
    builder.DefineVariable("line", 0, vectors / of_line - 1);
    place = place + Variable("line") * kept.gap;
  }
  const CExpr bytes =
      names.Constant(name + "_vector_bytes", lanes * DtypeBytes(weights->type.dtype),
                     "bytes of " + each + " elements");
  builder.AppendCall(
      Call(Template("CopyAsync", {bytes, "false"}),
           {PointerTo(builder, kept.array, place, kept_sizes),
            PointerTo(builder, buffer, first, PlaceIn(name, weights->type.shape)), "true"}));
  if (once)
    builder.CloseIf("threadIdx.x" < count);
  else
    builder.CloseFor(LoopHeader(builder, "i", "threadIdx.x", count, BlockSizeName(builder)));
}

void DeclareKeptRows(KernelBuilder& builder, const Value* value, const CExpr& rows_per_block,
                     std::optional<int64_t> place, RegionLowering::KeptRows& kept) {
  const std::string name = ModelName(value->name);
  kept.array = builder.Unique(name + (kept.for_all_rows ? "_kept" : "_rows"));
  const std::string type =
      kept.for_all_rows ? MemoryTypeName(value->type.dtype) : CTypeName(value->type.dtype);
  if (place) {
    CExpr begin = "shared_memory";
    if (*place > 0) {
      begin = begin + builder.expressions().Constant(
                          name + "_byte", *place, "where \"" + name + "\" begins in shared memory");
    }
    builder.Append(
        Statement::Declare(CExpr::Type(type + "*"), CExpr(kept.array),
                           Call(Template("reinterpret_cast", {CExpr::Type(type + "*")}), {begin})));
    return;
  }
  const Shape& shape = value->type.shape;
  const Shape rows(shape.begin(), shape.begin() + static_cast<int64_t>(kept.row_rank));
  const int64_t elements = *kept.Places(ElementsPerRow(value, rows), {}).AsConstant();
  const SizeNames names =
      kept.run > 0 ? CountOf(name, "", KeptSizes(value, kept))
                   : Only(ElementsOf(name, shape, std::min(kept.row_rank, shape.size() - 1)));
  const CExpr row = builder.Write(Expr(elements), names);
  const CExpr places = rows_per_block.empty() ? row
                       : elements == 1        ? rows_per_block
                                              : rows_per_block * row;
  const bool has_vectors = elements % KeptLanes(value) == 0;
  builder.Append(Statement::Declare(
      CExpr::Type((has_vectors ? "alignas(16) __shared__ " : "__shared__ ") + type),
      CExpr(kept.array)[places]));
}

int64_t KeptBytes(const Value* value, const RegionLowering::KeptRows& kept) {
  const Shape& shape = value->type.shape;
  const Shape rows(shape.begin(), shape.begin() + static_cast<int64_t>(kept.row_rank));
  return std::max(4, DtypeBytes(value->type.dtype)) *
         *kept.Places(ElementsPerRow(value, rows), {}).AsConstant();
}

int64_t KeptBytesWithGaps(const Node& region, ArrayRef<BlockStage> stages, ShapeRef rows) {
  int64_t bytes = 0;
  for (const BlockStage& stage : stages) {
    if (!stage.kept) continue;
    const bool is_matrix = IsMatrixOfTensorCores(stages, stage.value);
    bytes += KeptBytes(stage.value, PlaceKeptRows(region, stage.value, rows, true, is_matrix));
  }
  return bytes;
}

bool IsKeptRounded(const Value* weights, const std::string& precision) {
  return weights->type.dtype == Dtype::kF32 && !IsSplit(Dtype::kF32, precision);
}

void PlanKeptProduct(const Node& product, const RegionLowering::KeptRows& left,
                     const RegionLowering::KeptRows& right, const RegionLowering::KeptRows& sums,
                     const CExpr& rows_per_block, const std::string& precision,
                     KernelBuilder& builder) {
  builder.Use("tensor_core.cuh");
  builder.Use("kept_product.cuh");
  IndexWriter& names = builder.expressions();
  const Value *a = product.operand(0), *b = product.operand(1), *d = product.result();
  const std::string name = ModelName(d->name);
  const auto extent = [&](const Value* value, size_t axis) {
    return *value->type.shape[sums.row_rank + axis].AsConstant();
  };
  const CExpr lines =
      names.Constant(name + "_lines", extent(d, 0), "rows of each product in \"" + name + "\"");
  const CExpr columns = names.Constant(ExtentOf(name, d->type.shape, d->type.shape.size() - 1));
  const CExpr depth = builder.Write(extent(a, 1), LengthOf(product));
  // The KeptMatrices argument of the device function.
  const auto matrices = [&](const Value* value, const RegionLowering::KeptRows& kept) {
    const Shape matrix(value->type.shape.begin() + static_cast<int64_t>(kept.row_rank),
                       value->type.shape.end());
    const Expr pitch = kept.Places(matrix[1], builder.ranges());
    const Expr places =
        kept.for_all_rows ? Expr(0) : kept.Places(Product(matrix), builder.ranges());
    const SizeNames sizes = CountOf(ModelName(value->name), "", KeptSizes(value, kept));
    return List({kept.array, builder.Write(pitch, sizes), builder.Write(places, sizes)});
  };
  // TF32 represents 16-bit floats exactly, too.
  const CExpr arithmetic = d->type.dtype == Dtype::kF32
                               ? TensorCoreArithmetic(Dtype::kF32, precision)
                               : "Arithmetic::kTf32";
  std::vector<CExpr> shape = {arithmetic,
                              lines,
                              columns,
                              depth,
                              rows_per_block.empty() ? CExpr(1) : rows_per_block,
                              BlockSizeName(builder)};
  if (right.for_all_rows) {
    shape.emplace_back(IsKeptRounded(b, precision) ? "true" : "false");
    if (b->type.dtype != Dtype::kF32) shape.emplace_back(MemoryTypeName(b->type.dtype));
  }
  const CExpr multiply = Template("MultiplyKeptMatrices", std::move(shape));
  builder.AppendCall(Call(multiply, {matrices(a, left), matrices(b, right), matrices(d, sums),
                                     rows_per_block.empty() ? CExpr(1) : CExpr("rows_here")}));
}

}  // namespace fusec
