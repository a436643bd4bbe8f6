#include "compiler/plan/product_planner.h"

#include <numeric>

#include "compiler/ops/c_text.h"
#include "compiler/plan/block_stages.h"
#include "compiler/plan/fold.h"

namespace fusec {

ProductPlanner::ProductPlanner(const Node& region, const MatMulPlan& matmul,
                               const MatMulKernel& kernel, KernelBuilder& builder)
    : region_(region),
      matmul_(matmul),
      kernel_(kernel),
      builder_(builder),
      lowering_(region, builder) {
  for (const auto& node : region.body->nodes) {
    if (node->kind == OpKind::kMatMul) product_ = node.get();
  }
}

void ProductPlanner::NameOperands(bool reads_weights, bool takes_sizes) {
  ChooseIndexType(region_, builder_);
  CExpressionWriter& names = builder_.expressions();
  if (takes_sizes) {
    columns_ = builder_.SizeParameter("columns", columns(), "of the result");
    depth_ = builder_.SizeParameter("depth", depth(), "terms of its sum");
    names.NameSize(columns(), columns_);
  } else {
    names.NameConstant(columns(), FriendlyName(matmul_.result->name) + "_columns", "of the result");
    names.NameConstant(depth(), FriendlyName(product_->result()->name) + "_depth",
                       "terms of its sum");
    columns_ = builder_.Write(matmul_.n);
    depth_ = builder_.Write(matmul_.k);
  }
  NameCount(builder_, matmul_.m, "rows", "of the result");
  a_ = builder_.Buffer(matmul_.a.value);
  if (reads_weights) b_ = builder_.Buffer(matmul_.b.value);
}

KernelPlan ProductPlanner::Finish(int64_t more_bytes) {
  CountTraffic(region_, builder_.plan());
  builder_.plan().bytes_read = builder_.plan().bytes_read + more_bytes;
  return builder_.Finish();
}

std::string ProductPlanner::BlockNumber() const {
  return builder_.plan().index_type == "int" ? "blockIdx.x" : "(long long)blockIdx.x";
}

std::string ProductPlanner::OfMatrix(const Expr& stride, const std::string& name) {
  if (stride.IsConstant(0)) return name;
  const std::string first = builder_.Unique(name + "_matrix");
  builder_.Append({Statement::Kind::kLet,
                   MemoryTypeName(dtype()) + "*",
                   first,
                   name + " + " + builder_.Write(Expr::Symbol("matrix") * stride),
                   {},
                   {}});
  return first;
}

std::string ProductPlanner::ChooseMatrix(const std::string& number, const std::string& together) {
  if (matrices() == 1) return together;
  CExpressionWriter& names = builder_.expressions();
  const std::string count =
      names.OwnConstant("matrices", matrices(), "products, each of matrices of its own");
  Let("matrix", number + (together.empty() ? "" : " / " + together) + " % " + count, 0,
      matrices() - 1);
  a_ = OfMatrix(matmul_.a.batch_stride, a_);
  if (!b_.empty()) b_ = OfMatrix(matmul_.b.batch_stride, b_);
  return together.empty() ? count : "(" + count + " * " + together + ")";
}

std::vector<Expr> ProductPlanner::IndexOf(const Expr& row, const Expr& column) {
  const Shape& shape = product_->result()->type.shape;
  std::vector<Expr> index;
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

void ProductPlanner::StoreElement(const Expr& row, const Expr& column, const std::string& product) {
  Store(IndexOf(row, column), EvaluateResults(row, column, product));
}

std::vector<Scalar> ProductPlanner::EvaluateResults(const Expr& row, const Expr& column,
                                                    const std::string& product) {
  const std::vector<Expr> index = IndexOf(row, column);
  lowering_.Bind(product_->result(), index, {product, product_->result()->type.dtype});
  std::vector<Scalar> results;
  for (const Value* value : region_.body->outputs) {
    while (value->producer->kind == OpKind::kReshape) value = value->producer->operand(0);
    results.push_back(lowering_.Evaluate(value, index));
  }
  return results;
}

void ProductPlanner::Store(const std::vector<Expr>& index, const std::vector<Scalar>& results) {
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
    std::vector<Expr> index(shape.size() - 1, 0);
    index.push_back(column);
    lowering_.Evaluate(region_.body->inputs[i].get(), index);
  }
}

std::string ProductPlanner::EpilogueInWords() const {
  std::string words;
  for (const auto& node : region_.body->nodes) {
    if (node->kind == OpKind::kMatMul || node->kind == OpKind::kReshape) continue;
    words += (words.empty() ? "" : ", ") + std::string(GetOpDef(node->kind).text);
  }
  return words.empty() ? "The result" : "The result: " + words;
}

int64_t ProductPlanner::Aligned(int64_t most) const { return std::gcd(depth(), most); }

std::string ProductPlanner::MinText(const std::string& constant, const std::string& other) {
  return "min(" + WriteSize(builder_, constant) + ", " + other + ")";
}

void ProductPlanner::Let(const std::string& name, const std::string& text, const Expr& low,
                         const Expr& high) {
  builder_.AppendLet(name, text);
  builder_.DefineVariable(name, low, high);
}

}  // namespace fusec
