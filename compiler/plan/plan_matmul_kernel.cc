#include <numeric>

#include "compiler/ops/c_text.h"
#include "compiler/plan/block_stages.h"
#include "compiler/plan/fold.h"
#include "compiler/plan/matmul_kernels.h"
#include "compiler/plan/plan_region.h"
#include "compiler/plan/weight_panels.h"
#include "compiler/support/check.h"

namespace fusec {

namespace {

constexpr int kWarpSize = 32;
constexpr int64_t kTileLanes = 4;       // 16 bytes of sums
constexpr int kRowsBlockSize = 128;     // of kernels for few rows, unless tuned
constexpr int64_t kMostFirstPacks = 8;  // of weights in registers of a thread, each 16 bytes

class MatMulKernelPlanner {
 public:
  MatMulKernelPlanner(const Node& region, const MatMulPlan& matmul, const MatMulKernel& kernel,
                      const std::string& precision, KernelBuilder& builder, int64_t lanes = 1)
      : region_(region),
        matmul_(matmul),
        kernel_(kernel),
        precision_(precision),
        builder_(builder),
        lanes_(lanes),
        lowering_(region, builder) {
    for (const auto& node : region.body->nodes) {
      if (node->kind == OpKind::kMatMul) product_ = node.get();
    }
  }

  KernelPlan Plan() {
    Write();
    CountTraffic(region_, builder_.plan());
    builder_.plan().bytes_read = builder_.plan().bytes_read + more_bytes_;
    return builder_.Finish();
  }

  // Neighbouring elements of the result that a thread of a tile makes at once: as many as take no
  // threads their work, if what is read for them is neighbours as well.
  int64_t BestLanes() const {
    const MatMulTile& tile = kernel_.tile;
    const bool all_work = tile.rows * tile.columns >= kTileLanes * kernel_.block_size();
    if (!kernel_.is_tile() || !all_work || columns() % kTileLanes != 0) return 1;
    std::vector<IndexSite> sites;
    KernelBuilder builder(builder_, sites);
    MatMulKernelPlanner trial(region_, matmul_, kernel_, precision_, builder, kTileLanes);
    trial.Write();
    const RegionLowering::Loads& loads = trial.lowering_.loads();
    return loads.of_lanes <= loads.of_vectors ? kTileLanes : 1;
  }

 private:
  void Write() {
    ChooseIndexType(region_, builder_);
    CExpressionWriter& names = builder_.expressions();
    names.NameConstant(columns(), FriendlyName(matmul_.result->name) + "_columns", "of the result");
    names.NameConstant(depth(), FriendlyName(product_->result()->name) + "_depth",
                       "terms of its sum");
    NameCount(builder_, matmul_.m, "rows", "of the result");
    a_ = builder_.Buffer(matmul_.a.value);
    if (!ByWarpgroups() || dtype() == Dtype::kF32) b_ = builder_.Buffer(matmul_.b.value);
    if (kernel_.kind == MatMulKernel::Kind::kRows)
      PlanRows();
    else
      PlanTile();
  }

  int64_t columns() const { return *matmul_.n.AsConstant(); }
  int64_t depth() const { return *matmul_.k.AsConstant(); }
  int64_t matrices() const { return *matmul_.batch.AsConstant(); }
  Dtype dtype() const { return matmul_.result->type.dtype; }
  bool ByWarpgroups() const { return kernel_.kind == MatMulKernel::Kind::kWarpgroups; }
  const std::string& index_type() { return builder_.plan().index_type; }
  std::string Cast() { return index_type() == "int" ? "" : "(long long)"; }
  std::string MinText(const std::string& constant, const std::string& other) {
    return "min(" + WriteSize(builder_, constant) + ", " + other + ")";
  }
  void Let(const std::string& name, const std::string& text, const Expr& low, const Expr& high) {
    builder_.AppendLet(name, text);
    builder_.DefineVariable(name, low, high);
  }

  // From the operand that is called `name` on: the block's matrix of several, `stride` elements
  // each.
  std::string OfMatrix(const Expr& stride, const std::string& name) {
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

  // Which of the products the block takes part in. Of every `together` neighbouring blocks all take
  // part in the same one. Returns how many blocks are neighbours of any product.
  std::string ChooseMatrix(const std::string& together) {
    if (matrices() == 1) return together;
    CExpressionWriter& names = builder_.expressions();
    const std::string count =
        names.OwnConstant("matrices", matrices(), "products, each of matrices of its own");
    const std::string block = Cast() + "blockIdx.x";
    Let("matrix", block + (together.empty() ? "" : " / " + together) + " % " + count, 0,
        matrices() - 1);
    a_ = OfMatrix(matmul_.a.batch_stride, a_);
    if (!b_.empty()) b_ = OfMatrix(matmul_.b.batch_stride, b_);
    return together.empty() ? count : "(" + count + " * " + together + ")";
  }

  // Where the product has the element at `row` and `column`.
  std::vector<Expr> IndexOf(const Expr& row, const Expr& column) {
    const Shape& shape = product_->result()->type.shape;
    std::vector<Expr> index;
    if (matrices() == 1) {
      index = Coordinates(builder_, row, Shape(shape.begin(), shape.end() - 1), "row");
    } else {
      const Shape batch(shape.begin(), shape.end() - 2);
      index = Coordinates(builder_, Expr::Symbol("matrix"), batch, "matrix");
      index.push_back(row);
    }
    index.push_back(column);
    return index;
  }

  // The epilogue for the element of the product at `row` and `column`, whose value is `product`.
  void StoreElement(const Expr& row, const Expr& column, const std::string& product) {
    Store(IndexOf(row, column), EvaluateResults(row, column, product));
  }

  // The region's results there, of which reshapes are left out.
  std::vector<Scalar> EvaluateResults(const Expr& row, const Expr& column,
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

  void Store(const std::vector<Expr>& index, const std::vector<Scalar>& results) {
    for (size_t i = 0; i < results.size(); ++i) {
      std::vector<const Node*> views;
      for (const Value* value = region_.body->outputs[i]; value->producer->kind == OpKind::kReshape;
           value = value->producer->operand(0))
        views.insert(views.begin(), value->producer);
      lowering_.Store(static_cast<int>(i), IndexBehind(views, index, builder_.ranges()),
                      results[i]);
    }
  }

  // What the epilogue reads of weights that have one element for each column, such as a bias.
  void ReadColumnWeights(const Expr& column) {
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

  std::string EpilogueInWords() const {
    std::string words;
    for (const auto& node : region_.body->nodes) {
      if (node->kind == OpKind::kMatMul || node->kind == OpKind::kReshape) continue;
      words += (words.empty() ? "" : ", ") + std::string(GetOpDef(node->kind).text);
    }
    return words.empty() ? "The result" : "The result: " + words;
  }

  void PlanRows() {
    builder_.Use("matmul_rows.cuh");
    KernelPlan& plan = builder_.plan();
    CExpressionWriter& names = builder_.expressions();
    const int per_column = kernel_.warps_per_column;
    const int wanted = builder_.shape().block_size;
    plan.block_size = std::max(wanted > 0 ? wanted : kRowsBlockSize, per_column * kWarpSize);
    const int block_columns = plan.block_size / kWarpSize / per_column;
    plan.has_small_blocks = true;
    // None for an empty batch: a block would read a first row that is not there.
    plan.blocks = CeilDiv(matmul_.n, block_columns, builder_.ranges()) *
                  Min(matmul_.m, 1, builder_.ranges()) * matrices();
    plan.launch_in_words =
        per_column == 1 ? "one warp per column" : std::to_string(per_column) + " warps per column";
    const std::string most =
        names.OwnConstant("most_rows", kernel_.most_rows, "rows of the result");
    const std::string size = names.OwnConstant("warp_size", kWarpSize, "threads");
    const std::string threads =
        per_column == 1 ? size : "(" + WarpsPerColumn() + " * " + size + ")";
    if (per_column > 1)
      builder_.Append({Statement::Kind::kDeclare,
                       "__shared__ float",
                       "scratch[" + BlockSizeName(builder_) + " / " + size + " * " + most + "]",
                       "",
                       {},
                       {}});
    const std::string neighbours = ChooseMatrix("");
    Let("column",
        Cast() + "blockIdx.x" + (neighbours.empty() ? "" : " / " + neighbours) + " * (" +
            BlockSizeName(builder_) + " / " + threads + ") + threadIdx.x / " + threads,
        0, matmul_.n - 1);
    const bool fits = columns() % block_columns == 0;
    const std::string weights = ReadWeights(fits);
    builder_.Blank();
    builder_.Comment("The sum of row number `row` in the thread of that number.");
    const std::string rows = kernel_.most_rows == 1 ? "1" : builder_.Write(matmul_.m);
    builder_.Append({Statement::Kind::kLet,
                     "float",
                     "product",
                     "MultiplyRows<" + most + ">(" + a_ + ", " + rows + ", " + weights + ", " +
                         builder_.Write(matmul_.k) + ", " +
                         (per_column > 1 ? "scratch" : "nullptr") + ")",
                     {},
                     {}});
    StoreRows("threadIdx.x % " + threads, fits);
  }

  const std::string& WarpsPerColumn() {
    return builder_.expressions().OwnConstant("warps_per_column", kernel_.warps_per_column,
                                              "warps that share out a sum");
  }

  // Reads of the weights of `column` what fits in registers, and then waits for earlier kernels.
  // Returns the weights and those that were read. Every column is there if it `fits`.
  std::string ReadWeights(bool fits) {
    CExpressionWriter& names = builder_.expressions();
    const int64_t pack = Aligned(16 / DtypeBytes(dtype()));
    const std::string pack_name = names.OwnConstant("pack", pack, "elements of one load");
    const int64_t terms = pack * kWarpSize * kernel_.warps_per_column;
    const std::string packs =
        names.OwnConstant("first_packs", std::min((depth() + terms - 1) / terms, kMostFirstPacks),
                          "of a thread's share of the weights");
    const std::string k = builder_.Write(matmul_.k);
    const std::string weights = builder_.Unique("weights");
    const std::string first = builder_.Unique("first_weights");
    const std::string last = fits ? "" : builder_.Write(matmul_.n) + " - 1";
    builder_.Append({Statement::Kind::kLet,
                     MemoryTypeName(dtype()) + "*",
                     weights,
                     b_ + " + " + (fits ? "column" : MinText(last, "column")) + " * " + k,
                     {},
                     {}});
    builder_.Blank();
    builder_.Comment("Weights, before it is known what they meet.");
    builder_.Append({Statement::Kind::kLet,
                     "auto",
                     first,
                     "ReadFirstWeights<" + WarpsPerColumn() + ", " + pack_name + ", " + packs +
                         ">(" + weights + ", " + k + ")",
                     {},
                     {}});
    if (IsConstant(matmul_.b.value)) {
      if (fits) ReadColumnWeights(Expr::Symbol("column"));
      builder_.Append({Statement::Kind::kAwait, "", "", "", {}, {}});
    }
    return weights + ", " + first;
  }

  void StoreRows(const std::string& row, bool fits) {
    const Expr column = Expr::Symbol("column");
    if (kernel_.most_rows == 1 && fits) {
      // Without a branch, what it loads is under way before the sum is there.
      builder_.Blank();
      builder_.Comment(EpilogueInWords());
      const std::vector<Scalar> results = EvaluateResults(0, column, "product");
      builder_.Open(/*is_branch=*/true);
      Store(IndexOf(0, column), results);
      builder_.Append({Statement::Kind::kIf, "", "", row + " == 0", builder_.Close(), {}});
      return;
    }
    Let("row", row, 0, matmul_.m - 1);
    builder_.Blank();
    builder_.Comment(EpilogueInWords());
    builder_.Open(/*is_branch=*/true);
    StoreElement(Expr::Symbol("row"), column, "product");
    const std::string inside = fits ? "" : " && column < " + builder_.Write(matmul_.n);
    builder_.Append({Statement::Kind::kIf,
                     "",
                     "",
                     "row < " + builder_.Write(matmul_.m) + inside,
                     builder_.Close(),
                     {}});
  }

  // The largest power of two up to `most` that divides the depth.
  int64_t Aligned(int64_t most) const { return std::gcd(depth(), most); }

  // The kernel's name of what the tile is made by.
  void DeclareShape() {
    CExpressionWriter& names = builder_.expressions();
    const MatMulTile& tile = kernel_.tile;
    std::string shape = TensorCoreArithmetic(dtype(), precision_);
    const auto add = [&](const char* name, int64_t value, const char* comment) {
      shape += ", " + names.OwnConstant(name, value, comment);
    };
    add("tile_rows", tile.rows, "of a block");
    add("tile_columns", tile.columns, "of a block");
    if (!ByWarpgroups()) {
      add("chunk_bytes", tile.chunk_bytes, "of a row, in shared memory at a time");
      add("row_warps", tile.row_warps, "of a block, one below the other");
      add("column_warps", tile.column_warps, "side by side");
      add("depth_warps", tile.depth_warps, "that share out the sums");
    }
    add("stages", tile.stages, "chunks in shared memory");
    builder_.AppendCall(std::string("using Shape = ") +
                        (ByWarpgroups() ? "WarpgroupShape<" : "TileShape<") + shape + ">");
  }

  void PlanTile() {
    builder_.Use("async_copy.cuh");
    builder_.Use("tensor_core.cuh");
    builder_.Use("vector.cuh");
    builder_.Use("tile_memory.cuh");
    if (ByWarpgroups()) {
      builder_.Use("warpgroup.cuh");
      builder_.Use("copy_barrier.cuh");
      builder_.plan().blocks_together = 1;  // from which the compiler knows a thread's registers
    }
    builder_.Use(ByWarpgroups() ? "matmul_warpgroup.cuh" : "matmul_tile.cuh");
    KernelPlan& plan = builder_.plan();
    CExpressionWriter& names = builder_.expressions();
    const MatMulTile& tile = kernel_.tile;
    plan.block_size = kernel_.block_size();
    const Expr row_tiles = CeilDiv(matmul_.m, tile.rows, builder_.ranges());
    const int64_t column_tiles = CeilDiv(columns(), tile.columns);
    plan.blocks = row_tiles * column_tiles * matrices();
    plan.launch_in_words = "a block makes " + std::to_string(tile.rows) + " x " +
                           std::to_string(tile.columns) + " of the result";
    const std::string rows = names.OwnConstant("tile_rows", tile.rows, "of a block");
    const std::string width = names.OwnConstant("tile_columns", tile.columns, "of a block");
    DeclareShape();
    plan.shared_bytes = kernel_.shared_bytes(IsSplit(dtype(), precision_));
    DeclareSharedMemory(builder_);
    const std::string tiles = names.OwnConstant("column_tiles", column_tiles, "tiles side by side");
    const std::string neighbours = ChooseMatrix(tiles);
    Let("first_row", Cast() + "blockIdx.x / " + neighbours + " * " + rows, 0, matmul_.m - 1);
    Let("first_column", Cast() + "blockIdx.x % " + tiles + " * " + width, 0, matmul_.n - 1);
    builder_.Blank();
    Multiply(rows, width);
    builder_.Blank();
    builder_.Comment(EpilogueInWords());
    if (lanes_ == 1)
      StoreElements(rows, width);
    else
      StoreVectors(rows);
  }

  void Multiply(const std::string& rows, const std::string& width) {
    const std::string m = builder_.Write(matmul_.m), n = builder_.Write(matmul_.n);
    const std::string k = builder_.Write(matmul_.k);
    const std::string b = ByWarpgroups() ? FriendlyName(matmul_.b.value->name) : b_;
    builder_.Comment("memory.sums = " + a_ + " x " + b + ", transposed");
    const std::string right = ByWarpgroups() ? PanelsOfTile() : b_ + " + first_column * " + k;
    const int64_t copy = Aligned(16 / DtypeBytes(dtype())) * DtypeBytes(dtype());
    const std::string copy_name =
        builder_.expressions().OwnConstant("copy_bytes", copy, "of one copy");
    builder_.AppendCall((ByWarpgroups() ? "MultiplyTileByWarpgroups" : "MultiplyTile") +
                        ("<Shape, " + copy_name) + ">(" + a_ + " + first_row * " + k + ", " +
                        MinText(rows, m + " - first_row") + ", " + right + ", " +
                        MinText(width, n + " - first_column") + ", " + k + " * sizeof(" +
                        MemoryTypeName(dtype()) + "), memory)");
  }

  // Where the panels of the tile's columns begin.
  std::string PanelsOfTile() {
    const WeightLayout layout = PanelLayout(dtype(), precision_);
    std::string panels = builder_.Panels(matmul_.b.value, layout);
    const int64_t elements = PanelElements(columns(), depth(), dtype(), layout);
    const bool has_several = !matmul_.b.batch_stride.IsConstant(0);
    CExpressionWriter& names = builder_.expressions();
    if (has_several) {
      names.NameConstant(elements, "panel_elements", "of a matrix");
      panels = OfMatrix(elements, panels);
    }
    more_bytes_ =
        (elements - columns() * depth()) * (has_several ? matrices() : 1) * DtypeBytes(dtype());
    return panels + " + first_column * " +
           names.OwnConstant("panel_depth", PanelDepth(depth(), dtype(), layout),
                             "elements that panels have for a column");
  }

  void StoreElements(const std::string& rows, const std::string& width) {
    const MatMulTile& tile = kernel_.tile;
    const std::string header =
        LoopHeader(builder_, "i", "threadIdx.x", rows + " * " + width, "Shape::kThreads");
    builder_.Open();
    builder_.DefineVariable("i", 0, tile.rows * tile.columns - 1);
    Let("tile_row", "i / " + width, 0, tile.rows - 1);
    Let("tile_column", "i % " + width, 0, tile.columns - 1);
    Let("row", "first_row + tile_row", 0, matmul_.m - 1);
    Let("column", "first_column + tile_column", 0, matmul_.n - 1);
    builder_.Open(/*is_branch=*/true);
    LetProduct(Checked("TileSum<Shape>(memory, tile_row, tile_column)", "column"));
    StoreElement(Expr::Symbol("row"), Expr::Symbol("column"), "product");
    builder_.Append(
        {Statement::Kind::kIf,
         "",
         "",
         "row < " + builder_.Write(matmul_.m) + " && column < " + builder_.Write(matmul_.n),
         builder_.Close(),
         {}});
    builder_.CloseFor(header);
  }

  // As StoreElements, with neighbours in one thread, which stays in their columns.
  void StoreVectors(const std::string& rows) {
    CExpressionWriter& names = builder_.expressions();
    const MatMulTile& tile = kernel_.tile;
    const std::string lanes =
        names.OwnConstant("lanes", lanes_, "neighbours that a thread makes at once");
    const int64_t vectors = tile.columns / lanes_;
    const std::string count = names.OwnConstant("tile_vectors", vectors, lanes + " columns each");
    Let("tile_vector", "threadIdx.x % " + count, 0, vectors - 1);
    Let("vector", "first_column / " + lanes + " + tile_vector", 0, columns() / lanes_ - 1);
    names.NameFactor("vector", lanes_, lanes);
    const bool all_inside = columns() % tile.columns == 0;
    if (!all_inside) builder_.Open(/*is_branch=*/true);
    Let("tile_rows_here", MinText(rows, builder_.Write(matmul_.m) + " - first_row"), 0, tile.rows);
    builder_.Open();
    builder_.DefineVariable("tile_row", 0, tile.rows - 1);
    Let("row", "first_row + tile_row", 0, matmul_.m - 1);
    builder_.OpenLanes({"lane", lanes_, true, "#pragma unroll", lanes});
    const std::string sums =
        "TileSums<Shape, " + lanes + ">(memory, tile_row, tile_vector * " + lanes + ")";
    builder_.BeforeLanes({Statement::Kind::kLet,
                          "Vector<float, " + lanes + ">",
                          "sums",
                          Checked(sums, "vector * " + lanes),
                          {},
                          {}});
    LetProduct("sums.at[lane]");
    StoreElement(Expr::Symbol("row"), Expr::Symbol("vector") * lanes_ + Expr::Symbol("lane"),
                 "product");
    builder_.CloseLanes();
    builder_.CloseFor(LoopHeader(builder_, "tile_row", "threadIdx.x / " + count, "tile_rows_here",
                                 "Shape::kThreads / " + count));
    if (all_inside) return;
    const std::string vectors_name =
        names.OwnConstant("vectors", columns() / lanes_, lanes + " columns each, of the result");
    builder_.Append(
        {Statement::Kind::kIf, "", "", "vector < " + vectors_name, builder_.Close(), {}});
  }

  void LetProduct(const std::string& text) {
    builder_.Append({Statement::Kind::kLet, "float", "product", text, {}, {}});
    builder_.DefineVariable("product", 0, 0);
  }
  // `sums`, of the row and of columns from `column` on, made good where they are not finite.
  std::string Checked(const std::string& sums, const std::string& column) {
    if (dtype() != Dtype::kF32) return sums;
    const std::string k = builder_.Write(matmul_.k);
    return "PlainUnlessFinite(" + sums + ", " + a_ + " + row * " + k + ", " + b_ + " + " + column +
           " * " + k + ", " + k + ")";
  }

  const Node& region_;
  const MatMulPlan& matmul_;
  const MatMulKernel& kernel_;
  const std::string& precision_;
  KernelBuilder& builder_;
  const int64_t lanes_;  // of a thread of a tile
  RegionLowering lowering_;
  const Node* product_ = nullptr;
  std::string a_, b_;
  int64_t more_bytes_ = 0;  // by which panels that are read are larger than the weights
};

}  // namespace

KernelPlan PlanMatMulKernel(const Node& region, const MatMulPlan& matmul,
                            const MatMulKernel& kernel, const std::string& precision,
                            KernelBuilder& builder) {
  const int64_t lanes = MatMulKernelPlanner(region, matmul, kernel, precision, builder).BestLanes();
  return MatMulKernelPlanner(region, matmul, kernel, precision, builder, lanes).Plan();
}

}  // namespace fusec
