#include "compiler/plan/matmul/product_planner.h"

#include <numeric>

#include "compiler/ir/c_text.h"
#include "compiler/kernel/fold.h"
#include "compiler/region/block_stages.h"

namespace fusec {

ProductPlanner::ProductPlanner(const Node& region, const MatMulPlan& matmul, KernelBuilder& builder)
    : region_(region), matmul_(matmul), builder_(builder), lowering_(region, builder) {
  for (const auto& node : region.body->nodes) {
    if (node->kind == OpKind::kMatMul || node->kind == OpKind::kSlotMatMul) product_ = node.get();
  }
}

void ProductPlanner::NameOperands(bool reads_weights, bool takes_sizes) {
  ChooseIndexType(region_, builder_);
  if (takes_sizes) {
    columns_ = builder_.SizeParameter("columns", columns(), "last axis of the result");
    depth_ = builder_.SizeParameter("depth", depth(), "terms of each sum, last axis of operands");
    builder_.expressions().NameColumns(columns(), columns_);
  } else {
    const std::string name = NameOf(builder_, matmul_.result);
    columns_ =
        builder_.Write(matmul_.n, Only({0, name + "_columns", "last axis of \"" + name + "\""}));
    const std::string left =
        matmul_.made ? FriendlyName(matmul_.made->name) : NameOf(builder_, matmul_.a.value);
    // The last axis of weights, unless they lie the other way round.
    const std::string right =
        matmul_.b.transposed ? " and of \"" + NameOf(builder_, matmul_.b.value) + "\"" : "";
    depth_ = builder_.Write(matmul_.k,
                            Only({0, FriendlyName(product_->result()->name) + "_depth",
                                  "terms of each sum: last axis of \"" + left + "\"" + right}));
  }
  if (matmul_.a.value) a_ = builder_.Buffer(matmul_.a.value);
  if (reads_weights) b_ = builder_.Buffer(matmul_.b.value);
}

KernelPlan ProductPlanner::Finish(int64_t more_bytes) {
  CountTraffic(region_, builder_.plan());
  builder_.plan().bytes_read = builder_.plan().bytes_read + more_bytes;
  return builder_.Finish();
}

CExpr ProductPlanner::OfMatrix(const Expr& stride, const CExpr& name, std::vector<SizeName> sizes) {
  if (stride.IsConstant(0)) return name;
  const std::string first = builder_.Unique(name.word() + "_matrix");
  const SizeNames names{name.word(), "", true, std::move(sizes), {}, {}};
  builder_.Append(Statement::Let(CExpr::Type(MemoryTypeName(dtype()) + "*"), first,
                                 name + builder_.Write(Expr::Symbol("matrix") * stride, names)));
  return first;
}

CExpr ProductPlanner::ChooseMatrix(const CExpr& number, const CExpr& together) {
  if (matrices() == 1) return together;
  IndexWriter& names = builder_.expressions();
  const CExpr count =
      names.Constant("matrices", matrices(), "products, each of matrices of its own");
  Let("matrix", (together.empty() ? number : number / together) % count, 0, matrices() - 1);
  const auto of_matrix = [&](const MatMulPlan::Operand& operand, const CExpr& place) {
    const std::string& name = place.word();
    std::vector<SizeName> sizes = SizesOf(name, operand.value->type.shape);
    if (const auto stride = operand.batch_stride.AsConstant())
      sizes.insert(sizes.begin(),
                   {*stride, name + "_matrix_elements", "of a matrix of \"" + name + "\""});
    return OfMatrix(operand.batch_stride, place, std::move(sizes));
  };
  if (!a_.empty()) a_ = of_matrix(matmul_.a, a_);
  if (!b_.empty()) b_ = of_matrix(matmul_.b, b_);
  return together.empty() ? count : count * together;
}

CExpr ProductPlanner::LeftFrom(const CExpr& first_row) {
  if (!matmul_.made) return first_row.empty() ? a_ : a_ + first_row * depth_;
  const int64_t lanes = PackLanes();
  const CExpr lanes_name =
      builder_.expressions().Constant("pack_lanes", lanes, "neighbours in a row");
  a_ = builder_.Unique(FriendlyName(matmul_.made->name));
  builder_.Comment(
      "The left operand: " + OpsInWords(/*behind_product=*/false) + ". " + lanes_name.ToString() +
      " neighbours in a row, number `pack` of these" +
      (first_row.empty() ? "." : "; rows count from " + first_row.ToString() + " on."));
  builder_.Open();
  builder_.DefineVariable("left_row", 0, matmul_.m - 1);
  builder_.DefineVariable("pack", 0, depth() / lanes - 1);
  std::string row = "left_row";
  if (!first_row.empty()) {
    row = "made_row";
    Let(row, first_row + "left_row", 0, matmul_.m - 1);
  }
  const Expr first = FirstOfPack(lanes, lanes_name);
  builder_.OpenLanes({"lane", lanes, true, "#pragma unroll", lanes_name});
  builder_.BeforeLanes(Statement::Declare(VectorType(MemoryTypeName(dtype()), lanes_name), "made"));
  const Scalar made = lowering_.Evaluate(
      matmul_.made, IndexOf(matmul_.made, Expr::Symbol(row), first + Expr::Symbol("lane")));
  builder_.Assign("made.at[lane]", ToMemory(made.value, dtype()));
  builder_.CloseLanes();
  builder_.Append(Statement::Return("made"));
  const std::string& type = builder_.index_type();
  builder_.Append({.kind = Statement::Kind::kLambda,
                   .text = type + " left_row, " + type + " pack",
                   .place = a_,
                   .body = builder_.Close()});
  return a_;
}

const Value* ProductPlanner::BaseOfMade() const {
  const Value* base = matmul_.made;
  while (base->producer && GetOpDef(base->producer->kind).op_class == OpClass::kView)
    base = base->producer->operand(0);
  return base;
}

int64_t ProductPlanner::PackLanes() const {
  const int64_t most = Aligned(16 / DtypeBytes(dtype()));
  const int64_t columns = BaseOfMade()->type.shape.back().AsConstant().value_or(0);
  if (columns <= 1 || depth() % columns != 0) return most;
  const int64_t within = std::gcd(columns, most);
  return within > 1 ? within : most;
}

Expr ProductPlanner::FirstOfPack(int64_t lanes, const CExpr& lanes_name) {
  IndexWriter& names = builder_.expressions();
  const Value* base = BaseOfMade();
  const int64_t columns = base->type.shape.back().AsConstant().value_or(0);
  if (columns <= lanes || columns % lanes != 0 || depth() % columns != 0) {
    names.NameFactor("pack", lanes, lanes_name);
    return Expr::Symbol("pack") * lanes;
  }
  // The operand is a view of shorter rows.
  const std::string name = FriendlyName(base->name), of_base = "of \"" + base->name + "\"";
  const int64_t rows = depth() / columns, packs = columns / lanes;
  const CExpr packs_name = names.Constant(name + "_packs", packs, "in a row " + of_base);
  Let("base_row", "pack" / packs_name, 0, rows - 1);
  Let("base_pack", "pack" % packs_name, 0, packs - 1);
  names.NameFactor("base_pack", lanes, lanes_name);
  return Expr::Symbol("base_row") * columns + Expr::Symbol("base_pack") * lanes;
}

Exprs ProductPlanner::IndexOf(const Expr& row, const Expr& column) {
  return IndexOf(product_->result(), row, column);
}

Exprs ProductPlanner::IndexOf(const Value* value, const Expr& row, const Expr& column) {
  const Shape& shape = value->type.shape;
  Exprs index;
  if (matrices() == 1) {
    index = Coordinates(builder_, row, Shape(shape.begin(), shape.end() - 1), "row");
  } else {
    const Shape batch(shape.begin(), shape.end() - 2);
    index = Coordinates(builder_, Expr::Symbol("matrix"), batch, "matrix");
    index.push_back(row);
  }
  // As other ops index an axis of one element.
  index.push_back(shape.back().IsConstant(1) ? Expr(0) : column);
  return index;
}

void ProductPlanner::StoreElement(const Expr& row, const Expr& column, const CExpr& product) {
  Store(IndexOf(row, column), EvaluateResults(row, column, product));
}

std::vector<Scalar> ProductPlanner::EvaluateResults(const Expr& row, const Expr& column,
                                                    const CExpr& product) {
  const Exprs index = IndexOf(row, column);
  lowering_.Bind(product_->result(), index, {product, product_->result()->type.dtype});
  std::vector<Scalar> results;
  for (const Value* value : region_.body->outputs) {
    while (value->producer->kind == OpKind::kReshape) value = value->producer->operand(0);
    results.push_back(lowering_.Evaluate(value, index));
  }
  return results;
}

void ProductPlanner::Store(ArrayRef<Expr> index, ArrayRef<Scalar> results) {
  for (size_t i = 0; i < results.size(); ++i) {
    std::vector<const Node*> views;
    for (const Value* value = region_.body->outputs[i]; value->producer->kind == OpKind::kReshape;
         value = value->producer->operand(0))
      views.insert(views.begin(), value->producer);
    lowering_.Store(static_cast<int>(i), IndexBehind(views, index, builder_.ranges()), results[i]);
  }
}

void ProductPlanner::ReadColumnWeights(const Expr& column) {
  for (size_t i = 0; i < region_.operands.size(); ++i) {
    const Shape& shape = region_.operands[i]->type.shape;
    const bool is_row = !shape.empty() && shape.back().IsConstant(columns()) &&
                        region_.operands[i]->type.ElementCount().IsConstant(columns());
    if (!is_row || !IsConstant(region_.operands[i])) continue;
    Exprs index(shape.size() - 1, 0);
    index.push_back(column);
    lowering_.Evaluate(region_.body->inputs[i].get(), index);
  }
}

std::string ProductPlanner::OpsInWords(bool behind_product) const {
  std::string words;
  bool is_behind = false;
  for (const auto& node : region_.body->nodes) {
    is_behind |= node.get() == product_;
    if (node.get() == product_ || node->kind == OpKind::kReshape) continue;
    if (is_behind == behind_product)
      words += (words.empty() ? "" : ", ") + std::string(GetOpDef(node->kind).text);
  }
  return words;
}

std::string ProductPlanner::EpilogueInWords() const {
  const std::string words = OpsInWords(/*behind_product=*/true);
  return words.empty() ? "The result" : "The result: " + words;
}

int64_t ProductPlanner::Aligned(int64_t most) const { return std::gcd(depth(), most); }

CExpr ProductPlanner::MinOf(const CExpr& constant, const CExpr& other) {
  return Min(WriteSize(builder_, constant), other);
}

void ProductPlanner::Let(const std::string& name, const CExpr& value, const Expr& low,
                         const Expr& high) {
  builder_.AppendLet(name, value);
  builder_.DefineVariable(name, low, high);
}

}  // namespace fusec
