#include "compiler/plan/matmul/product_planner.h"

#include <algorithm>
#include <numeric>

#include "compiler/ir/c_text.h"
#include "compiler/kernel/fold.h"
#include "compiler/kernel/rows_together.h"
#include "compiler/region/block_stages.h"
#include "compiler/region/product.h"
#include "compiler/region/slot_product.h"

namespace fusec {

ProductPlanner::ProductPlanner(const Node& region, const MatMulPlan& matmul, KernelBuilder& builder)
    : region_(region), matmul_(matmul), builder_(builder), lowering_(region, builder) {
  for (const auto& node : region.body->nodes) {
    const bool is_product =
        node->kind == OpKind::kMatMul || (node->kind == OpKind::kSlotMatMul && product_ == nullptr);
    if (is_product) product_ = node.get();
  }
  last_in_tile_ = product_;
  is_paired_ = IsPaired(region);
}

CExpr ProductPlanner::ResultColumns() { return is_paired_ ? columns_ / 2 : columns_; }

CExpr ProductPlanner::InTurn() {
  return builder_.expressions().Constant("in_turn", kPairedColumns,
                                         "columns of one of the two products, then of the other");
}

CExpr ProductPlanner::PairColumns() {
  return builder_.expressions().Constant("pair_columns", 2 * kPairedColumns,
                                         "columns of both products");
}

void ProductPlanner::NameOperands(bool reads_weights, bool takes_sizes) {
  ChooseIndexType(region_, builder_);
  if (takes_sizes) {
    columns_ = builder_.SizeParameter("columns", columns(), "last axis of the result");
    depth_ = builder_.SizeParameter("depth", depth(), "terms of each sum, last axis of operands");
    builder_.expressions().NameColumns(result_columns(), ResultColumns());
  } else {
    // The columns are named after the result, unless it is a view with other rows.
    const Shape& shape = matmul_.result->type.shape;
    const bool has_columns = !shape.empty() && shape.back() == matmul_.n;
    const std::string name =
        has_columns ? NameOf(builder_, matmul_.result) : ModelName(product_->result()->name);
    columns_ =
        builder_.Write(matmul_.n, Only({0, name + "_columns", "last axis of \"" + name + "\""}));
    const std::string left =
        matmul_.made ? ModelName(matmul_.made->name) : NameOf(builder_, matmul_.a.value);
    // The depth is also the last axis of the weights, if these are transposed.
    const std::string right =
        matmul_.b.transposed ? " and of \"" + NameOf(builder_, matmul_.b.value) + "\"" : "";
    depth_ = builder_.Write(matmul_.k,
                            Only({0, ModelName(product_->result()->name) + "_depth",
                                  "terms of each sum: last axis of \"" + left + "\"" + right}));
  }
  if (matmul_.a.value) a_ = builder_.Buffer(matmul_.a.value);
  if (reads_weights) b_ = builder_.Buffer(matmul_.b.value);
}

KernelPlan ProductPlanner::Finish(int64_t more_bytes) {
  CountTraffic(region_, builder_.plan());
  Expr& bytes = builder_.plan().bytes_read;
  bytes = bytes + more_bytes;
  if (matmul_.made_right != nullptr) {  // a kernel reads the weights in one of their two forms
    const ValueSet packed = PackedInputs(region_);
    for (size_t i = 0; i < region_.operands.size(); ++i) {
      const bool is_packed = packed.count(region_.body->inputs[i].get()) != 0;
      const bool is_dense = region_.operands[i] == matmul_.b.value;
      if (makes_weights_ ? is_dense : is_packed) bytes = bytes - region_.operands[i]->type.Bytes();
    }
  }
  return builder_.Finish();
}

CExpr ProductPlanner::OfMatrix(const Expr& stride, const CExpr& name, std::vector<SizeName> sizes) {
  if (stride.IsConstant(0)) return name;
  const std::string first = builder_.Unique(name.word() + "_matrix");
  const SizeNames names{name.word(), "", true, std::move(sizes), {}, {}};
  builder_.Append(Statement::Let(CExpr::Type(MemoryTypeName(dtype()) + "*"), first,
                                 name + builder_.Write(Variable("matrix") * stride, names)));
  return first;
}

CExpr ProductPlanner::ChooseMatrix(const CExpr& number, const CExpr& together) {
  if (matrices() == 1) return together;
  IndexWriter& names = builder_.expressions();
  const CExpr count = names.Constant("matrices", matrices(), "independent products");
  Let("matrix", (together.empty() ? number : number / together) % count, 0, matrices() - 1);
  const auto of_matrix = [&](const MatMulPlan::Operand& operand, const CExpr& place) {
    const std::string& name = place.word();
    std::vector<SizeName> sizes = SizesOf(name, operand.value->type.shape);
    if (const auto stride = operand.batch_stride.AsConstant())
      sizes.insert(sizes.begin(),
                   {*stride, name + "_matrix_elements", "elements per matrix of \"" + name + "\""});
    return OfMatrix(operand.batch_stride, place, std::move(sizes));
  };
  if (!a_.empty()) a_ = of_matrix(matmul_.a, a_);
  if (!b_.empty()) b_ = of_matrix(matmul_.b, b_);
  return together.empty() ? count : count * together;
}

Exprs ProductPlanner::IndexOf(const Expr& row, const Expr& column) {
  return IndexOf(product_->result(), row, column);
}

Exprs ProductPlanner::IndexOf(const Value* value, const Expr& row, const Expr& column) {
  const Shape& shape = value->type.shape;
  // Other ops index an axis of one element with 0.
  const auto along = [](const Expr& extent, const Expr& place) {
    return extent.IsConstant(1) ? Expr(0) : place;
  };
  Exprs index;
  if (matrices() == 1) {
    index = Coordinates(builder_, row, Shape(shape.begin(), shape.end() - 1), "row");
  } else {
    const Shape batch(shape.begin(), shape.end() - 2);
    index = Coordinates(builder_, Variable("matrix"), batch, "matrix");
    index.push_back(along(shape[shape.size() - 2], row));
  }
  index.push_back(along(shape.back(), column));
  return index;
}

Exprs ProductPlanner::IndexOfResult(const Expr& row, const Expr& column) {
  if (!is_paired_) return IndexOf(row, column);
  Exprs index = IndexOf(row, 0);
  index.back() = column;
  return index;
}

void ProductPlanner::StoreElement(const Expr& row, const Expr& column) {
  Store(IndexOfResult(row, column), EvaluateResults(row, column));
}

std::vector<Scalar> ProductPlanner::EvaluateResults(const Expr& row, const Expr& column) {
  const Value* last = last_in_tile_->result();
  const Exprs index = IndexOfResult(row, column);
  if (is_paired_) {
    const Ranges& ranges = builder_.ranges();
    Exprs place = index;
    const Expr first = FloorDiv(column, kPairedColumns, ranges) * (2 * kPairedColumns) +
                       Mod(column, kPairedColumns, ranges);
    place.back() = first;
    lowering_.Bind(last, place, {"product", last->type.dtype});
    place.back() = first + kPairedColumns;
    lowering_.BindAlso(last, place, {"second_product", last->type.dtype});
  } else {
    lowering_.Bind(last, index, {"product", last->type.dtype});
  }
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

void ProductPlanner::StoreVectors(const TileStore& store) {
  IndexWriter& names = builder_.expressions();
  const CExpr lanes =
      names.Constant("lanes", store.lanes, "elements that a thread computes at once");
  const int64_t products = is_paired_ ? 2 : 1;  // elements of the product per element of the result
  const int64_t vectors = store.columns / (products * store.lanes);
  const CExpr count = names.Constant("tile_vectors", vectors, lanes.ToString() + " columns each");
  Let("tile_vector", "threadIdx.x" % count, 0, vectors - 1);
  const CExpr in_product = is_paired_ ? PairColumns() : lanes;
  Let("vector", "first_column" / in_product + "tile_vector", 0, result_columns() / store.lanes - 1);
  names.NameFactor("vector", store.lanes, lanes);
  const int64_t rows_at_once = store.threads / vectors;
  const CExpr at_once =
      names.Constant("rows_at_once", rows_at_once, "rows that a block stores at once");
  std::vector<CExpr> conditions;
  if (columns() % store.columns != 0) conditions.push_back("vector" * lanes < ResultColumns());
  if (store.threads % vectors != 0) conditions.push_back("threadIdx.x" < at_once * count);
  for (size_t i = 0; i < conditions.size(); ++i) builder_.Open(/*is_branch=*/true);
  const std::string end = IsShared() ? "last_tile_row" : "tile_rows_here";
  Let(end, MinOf(FromTileRow(store.block_rows), RowCount() - "first_row"), 0, store.rows);
  Statement header =
      LoopHeader(builder_, "tile_row", FromTileRow("threadIdx.x" / count), end, at_once);
  builder_.Open();
  builder_.DefineVariable("tile_row", 0, store.rows - 1);
  Let("row", "first_row + tile_row", 0, matmul_.m - 1);
  builder_.OpenLanes({"lane", store.lanes, true, "#pragma unroll", lanes});
  LetProduct("sums.at[lane]");
  if (is_paired_) LetProduct("second_sums.at[lane]", "second_product");
  StoreElement(Variable("row"), Variable("vector") * store.lanes + Variable("lane"));
  const CExpr tile_column = "tile_vector" * in_product, column = "vector" * in_product;
  builder_.BeforeLanes(Statement::Let(VectorType("float", lanes), "sums",
                                      store.sums("tile_row", tile_column, column)));
  if (is_paired_)
    builder_.BeforeLanes(
        Statement::Let(VectorType("float", lanes), "second_sums",
                       store.sums("tile_row", tile_column + lanes, column + lanes)));
  builder_.CloseLanes();
  header.body = builder_.Close();
  // The body begins with locals; if these load anything, the loads of several rows overlap.
  const auto first_other =
      std::find_if(header.body.begin(), header.body.end(), [](const Statement& statement) {
        return statement.kind != Statement::Kind::kLet || statement.place.word() == "sums" ||
               statement.place.word() == "second_sums";
      });
  const auto locals = static_cast<size_t>(first_other - header.body.begin());
  const int64_t of_thread = CeilDiv(store.rows / cluster_blocks_, rows_at_once);
  for (Statement& statement :
       WithLoadsTogether(builder_, std::move(header), end, locals, of_thread))
    builder_.Append(std::move(statement));
  for (; !conditions.empty(); conditions.pop_back()) builder_.CloseIf(conditions.back());
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

std::string ProductPlanner::OpsOf(const Value* value) const {
  const NodeSet nodes = NodesBehind(value);
  return InWords([&](const Node& node) { return nodes.count(&node) != 0; });
}

std::string ProductPlanner::OpsBehindProduct() const {
  bool is_behind = false;
  return InWords([&](const Node& node) {
    const bool was_behind = is_behind;
    is_behind |= &node == last_in_tile_;
    return was_behind;
  });
}

std::string ProductPlanner::InWords(function_ref<bool(const Node&)> is_named) const {
  std::string words;
  for (const auto& node : region_.body->nodes) {
    const bool is_view =
        node->kind == OpKind::kReshape || (is_paired_ && node->kind == OpKind::kSlice);
    if (!is_named(*node) || is_view) continue;
    words += (words.empty() ? "" : ", ") + std::string(GetOpDef(node->kind).text);
  }
  return words;
}

CExpr ProductPlanner::ClusterBlocks() {
  return builder_.expressions().Constant("cluster_blocks", cluster_blocks_,
                                         "blocks that split each sum");
}

void ProductPlanner::LaunchTiles(const Expr& tiles, int64_t rows, int64_t columns) {
  KernelPlan& plan = builder_.plan();
  plan.cluster_blocks = cluster_blocks_;
  plan.blocks = tiles * cluster_blocks_;
  plan.launch_in_words =
      (IsShared() ? "a cluster of " + std::to_string(cluster_blocks_) + " computes "
                  : "a block computes ") +
      std::to_string(rows) + " x " + std::to_string(columns) + " of the result";
}

CExpr ProductPlanner::NumberOfTile(const Expr& tiles) {
  if (!IsShared()) return BlockNumber();
  Let("tile", BlockNumber() / ClusterBlocks(), 0, tiles - 1);
  return "tile";
}

CExpr ProductPlanner::ShareOfRows(int64_t rows, const CExpr& name) {
  if (!IsShared()) return name;
  const CExpr share = builder_.expressions().Constant("block_rows", rows / cluster_blocks_,
                                                      "rows that a block stores");
  Let("first_tile_row", BlockNumber() % ClusterBlocks() * share, 0, rows - 1);
  return share;
}

void ProductPlanner::EndTile() {
  if (!IsShared()) return;
  builder_.Blank();
  builder_.AppendCall("LeaveCluster()");
}

CExpr ProductPlanner::ReadSlot(const Node& slot_matmul, const CExpr& rows) {
  builder_.Comment("Thread i reads the slot of row i of the tile.");
  builder_.Append(Statement::Declare("int", "slot", -1));
  Let("slot_row", CExpr("first_row") + "threadIdx.x", 0, matmul_.m - 1);
  builder_.Open(/*is_branch=*/true);
  const Shape& shape = slot_matmul.result()->type.shape;
  const Shape rows_shape(shape.begin(), shape.end() - 1);
  const Exprs place = Coordinates(builder_, Variable("slot_row"), rows_shape, "slot_row");
  const Value* slots = slot_matmul.operand(kSlotsOfProduct);
  const Exprs of_slots(place.begin(), place.begin() + slots->type.rank());
  const Expr checked = lowering_.SlotAt(slot_matmul, kSlotsOfProduct, of_slots, kBankOfProduct);
  builder_.Assign("slot", builder_.Write(checked, {}));
  builder_.CloseIf(And("threadIdx.x" < rows, "slot_row" < RowCount()));
  return "slot";
}

std::string ProductPlanner::EpilogueInWords() const {
  const std::string words = OpsBehindProduct();
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
