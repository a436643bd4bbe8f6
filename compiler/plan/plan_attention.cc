#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "compiler/kernel/fold.h"
#include "compiler/kernel/idioms.h"
#include "compiler/plan/attention_limit.h"
#include "compiler/plan/attention_mask.h"
#include "compiler/plan/attention_results.h"
#include "compiler/plan/attention_tiling.h"
#include "compiler/plan/plan_region.h"
#include "compiler/plan/tile_copier.h"
#include "compiler/region/attention_tiles.h"
#include "compiler/region/block_stages.h"
#include "compiler/support/check.h"

namespace fusec {

namespace {

constexpr int kResidentThreads = 512;  // per multiprocessor, if registers allow it
constexpr int64_t kNeighbours = 2;     // consecutive elements of a row per thread

SizeName Queries() { return {0, "queries", "queries of a head"}; }
SizeName KeyCount() { return {0, "keys", "keys of a head, and as many values"}; }
SizeName ValueColumns() { return {0, "value_columns", "elements of a value"}; }

// A block computes the results of some queries of one head, and loops over tiles of keys and values
// (attention_tile.cuh).
class AttentionPlanner {
 public:
  AttentionPlanner(const Node& region, const PlanOptions& options, KernelBuilder& builder)
      : region_(region),
        options_(options),
        builder_(builder),
        lowering_(region, builder),
        copier_(region, builder, lowering_),
        parts_(AttentionOf(region)),
        tiling_(TileAttention(parts_, builder.ranges(), options, builder.shape())) {
    const Shape& shape = parts_.values->result()->type.shape;
    heads_ = Shape(shape.begin(), shape.end() - 2);
    queries_ = shape[shape.size() - 2];
    columns_ = *shape.back().AsConstant();
    keys_ = parts_.scores->result()->type.shape.back();
    depth_ = *MatMulDepth(*parts_.scores).AsConstant();
  }

  KernelPlan Plan() {
    ChooseIndexType(region_, builder_);
    for (const char* file : {"half.cuh", "vector.cuh", "async_copy.cuh", "tensor_core.cuh"})
      builder_.Use(file);
    if (by_warpgroups()) builder_.Use("warpgroup.cuh");
    builder_.Use("attention_tile.cuh");
    builder_.Use(by_warpgroups() ? "attention_warpgroup.cuh" : "attention_mma.cuh");
    if (tiling_.splits_keys()) {
      builder_.Use("block_cluster.cuh");
      builder_.Use("attention_parts.cuh");
    }
    OpenBlock();
    diagonal_ = FindDiagonal(region_, parts_, builder_, Product(heads_));
    if (!tiling_.has_one_tile)
      used_ = DeclareUsedRows(lowering_, parts_, {queries_, keys_, Queries(), KeyCount(), Tile()});
    StageQueries();
    tiling_.has_one_tile ? PlanScores() : WalkKeys();
    StoreResult();
    CountTraffic(region_, builder_.plan());
    return builder_.Finish();
  }

 private:
  Dtype dtype() const { return parts_.values->result()->type.dtype; }
  bool is_float() const { return dtype() == Dtype::kF32; }
  int tile_queries() const { return tiling_.memory.queries; }
  int tile_keys() const { return tiling_.memory.keys; }
  bool by_warpgroups() const { return tiling_.memory.by_warpgroups; }
  int cluster_blocks() const { return tiling_.memory.cluster_blocks; }
  CExpr Own(const std::string& name, int64_t value, const std::string& comment) {
    return builder_.expressions().Constant(name, value, comment);
  }
  CExpr TileQueries() { return TileQueriesName(tiling_, builder_); }
  CExpr TileKeys() { return TileKeysName(tiling_, builder_); }
  TileOfQueries Tile() { return {tile_queries(), TileQueries()}; }
  CExpr TilesInMemory() { return TilesInMemoryName(tiling_, builder_); }
  Expr Let(const std::string& name, const CExpr& value, const Expr& extent) {
    builder_.AppendLet(name, value);
    return builder_.DefineVariable(name, 0, extent - 1);
  }
  // The constant or local with the number of tiles.
  CExpr TileCount(const std::string& name, const Expr& tiles, const Expr& extent,
                  const SizeName& extent_name, const CExpr& tile, const std::string& comment) {
    if (const auto count = tiles.AsConstant()) return Own(name, *count, comment);
    Let(name, (builder_.Write(extent, Only(extent_name)) + tile - 1) / tile, tiles + 1);
    return name;
  }

  void OpenBlock() {
    KernelPlan& plan = builder_.plan();
    plan.block_size = tiling_.block_size();
    const Expr tiles = CeilDiv(queries_, tile_queries(), builder_.ranges());
    plan.cluster_blocks = cluster_blocks();
    plan.blocks = Product(heads_) * tiles * cluster_blocks();
    plan.shared_bytes = tiling_.memory.shared_bytes();
    plan.drawing = DrawAttention(tiling_.memory);
    if (!is_float() && depth_ <= 64 && columns_ <= 64)
      plan.blocks_together = kResidentThreads / plan.block_size;
    plan.launch_in_words =
        (cluster_blocks() > 1 ? fmt::format("a cluster of {}", cluster_blocks()) : "a block") +
        fmt::format(" computes {} queries of a head", tile_queries());
    const CExpr block =
        DeclareShape(tiling_, TensorCoreArithmetic(dtype(), options_.matmul_precision), depth_,
                     columns_, builder_);
    DeclareSharedMemory(builder_);
    const CExpr tile_count = TileCount("query_tiles", tiles, queries_, Queries(), TileQueries(),
                                       "tiles of queries per head");
    if (CountMasks(parts_) > 0) {
      // With a causal mask, the last queries have the most keys. They start first, so that all
      // blocks end at about the same time.
      const CExpr heads = builder_.Write(Product(heads_), CountOf("heads", "heads of the queries"));
      Let("head", block % heads, Product(heads_));
      Let("first_query", (tile_count - 1 - block / heads) * TileQueries(), queries_);
    } else {
      Let("head", block / tile_count, Product(heads_));
      Let("first_query", block % tile_count * TileQueries(), queries_);
    }
    head_ = Coordinates(builder_, Variable("head"), heads_, "head");
    if (InSteps(depth_) != depth_ || InSteps(columns_) != columns_) {
      builder_.Blank();
      builder_.Comment("Clear shared memory: the padding of rows stays zero.");
      builder_.Open();
      builder_.Assign("reinterpret_cast<unsigned*>(shared_memory)[i]", 0);
      builder_.CloseFor(LoopHeader(builder_, "i", "threadIdx.x",
                                   Own("shared_bytes", plan.shared_bytes, "") / "sizeof(unsigned)",
                                   BlockSizeName(builder_)));
      builder_.AppendCall("__syncthreads()");
    }
  }

  // The index of `row` and `column` for this block's head in a tensor [.., rows, columns] with the
  // same number of heads.
  Exprs At(const Value* value, const Expr& row, const Expr& column) {
    const Shape& shape = value->type.shape;
    const Shape lead(shape.begin(), shape.end() - 2);
    Exprs index = lead == heads_ ? head_ : Coordinates(builder_, Variable("head"), lead, "head");
    index.push_back(row);
    index.push_back(column);
    return index;
  }

  // Brings the queries to shared memory, and all keys and values if they are one tile.
  void StageQueries() {
    const Node& scores = *parts_.scores;
    builder_.Blank();
    builder_.Comment(tiling_.has_one_tile ? "The queries of this block, and all keys and values."
                                          : "The queries of this block.");
    bool copies = copier_.Stage(
        {"query", scores.operand(0), "first_query", queries_, Queries(), tile_queries(),
         TileQueries(), depth_, "memory.queries", [&](const Expr& row, const Expr& element) {
           return MatMulOperandIndex(scores, 0, At(scores.result(), row, 0), element);
         }});
    bool all_are_copies = copies;
    if (tiling_.has_one_tile) {
      Let("first_key", 0, keys_);
      builder_.Append(Statement::Declare(CExpr::Type("Shape::Tile&"), "here", "memory.tiles[0]"));
      for (const TileRows& rows : {Keys("here"), Values("here")}) {
        const bool is_copy = copier_.Stage(rows);
        copies |= is_copy;
        all_are_copies &= is_copy;
      }
    }
    if (copies) {
      builder_.AppendCall("CloseCopies()");
      builder_.AppendCall("AwaitCopies<0>()");
    }
    // wgmma sees asynchronous copies, but needs a fence for what threads store.
    if (by_warpgroups() && !all_are_copies) builder_.AppendCall("ShowTensorCores()");
    builder_.AppendCall("__syncthreads()");
    builder_.Append(Statement::Declare("const auto", "queries", "TakeQueries<Shape>(memory)"));
    builder_.Append(Statement::Declare("AttentionSums<Shape>", "attention"));
  }

  void WalkKeys() {
    builder_.Blank();
    const CExpr ahead =
        Own("tiles_ahead", tiling_.memory.tiles_ahead, "tiles that are copied while one is used");
    builder_.Comment("Loop over tiles of keys and values. The next are copied while one is used.");
    const Expr tiles = CeilDiv(keys_, tile_keys(), builder_.ranges());
    CExpr tile_count = "key_tiles";
    if (used_.has_limit) Let("key_tiles", ("used_keys" + TileKeys() - 1) / TileKeys(), tiles + 1);
    if (!used_.has_limit)
      tile_count =
          TileCount("key_tiles", tiles, keys_, KeyCount(), TileKeys(), "tiles of keys and values");
    if (used_.has_begin) {
      Let("first_tile", "unseen_keys" / TileKeys(), tiles + 1);
      Let("seen_tiles", Conditional("first_tile" < tile_count, tile_count - "first_tile", 0),
          tiles + 1);
      tile_count = "seen_tiles";
    }
    if (tiling_.splits_keys()) {
      Let("own_tiles", Call("Cluster::CountTiles", {tile_count}), tiles + 1);
      tile_count = "own_tiles";
    }
    builder_.Open();
    builder_.DefineVariable("tile", 0, tiles + (tiling_.memory.tiles_ahead - 1));
    builder_.Comment("The oldest tile has arrived, and no thread reads the one before it anymore.");
    builder_.AppendCall(Call(Template("AwaitCopies", {ahead - 1}), {}));
    builder_.AppendCall("__syncthreads()");
    StageTile(tile_count);
    builder_.AppendCall("CloseCopies()");
    builder_.AppendIf("tile" < ahead, "continue");
    Let("first_key", FirstKey("tile" - ahead), keys_);
    builder_.Append(Statement::Declare(CExpr::Type("const Shape::Tile&"), "here",
                                       CExpr("memory.tiles")[("tile" - ahead) % TilesInMemory()]));
    PlanScores();
    builder_.CloseFor(IntLoopHeader("tile", 0, "tile" < tile_count + ahead));
  }

  // The first key of the block's tile number `tile`.
  CExpr FirstKey(const CExpr& tile) {
    const CExpr first = tiling_.splits_keys()
                            ? Call(Template("Cluster::FirstKey", {"Shape"}), {tile})
                            : tile * TileKeys();
    return used_.has_begin ? first + CExpr("first_tile") * TileKeys() : first;
  }

  TileRows Keys(const CExpr& tile) {
    return {"key",
            parts_.scores->operand(1),
            "first_key",
            keys_,
            KeyCount(),
            tile_keys(),
            TileKeys(),
            depth_,
            tile.Dot("keys"),
            [this](const Expr& row, const Expr& element) {
              const Value* scores = parts_.scores->result();
              return MatMulOperandIndex(*parts_.scores, 1, At(scores, 0, row), element);
            }};
  }
  TileRows Values(const CExpr& tile) {
    TileRows rows = Keys(tile);
    rows.name = "value";
    rows.operand = parts_.values->operand(1);
    rows.elements = columns_;
    rows.array = tile.Dot("values");
    rows.at = [this](const Expr& row, const Expr& element) {
      return MatMulOperandIndex(*parts_.values, 1, At(parts_.values->result(), 0, element), row);
    };
    if (!used_.values_end) return rows;
    rows.limit = "used_values";
    rows.before_limit = [this](ArrayRef<Expr> index, const Expr& row, const Ranges& ranges) {
      const auto found = LimitOfValues(lowering_, parts_, index, row, ranges);
      return std::pair(found->rows, found->index);
    };
    return rows;
  }

  void StageTile(const CExpr& tile_count) {
    builder_.Open(/*is_branch=*/true);
    Let("first_key", FirstKey("tile"), keys_);
    builder_.Append(Statement::Declare(CExpr::Type("Shape::Tile&"), "next",
                                       CExpr("memory.tiles")["tile" % TilesInMemory()]));
    const bool copies_keys = copier_.Stage(Keys("next")),
               copies_values = copier_.Stage(Values("next"));
    // wgmma sees asynchronous copies, but needs a fence for what threads store.
    if (by_warpgroups() && !(copies_keys && copies_values))
      builder_.AppendCall("ShowTensorCores()");
    builder_.CloseIf("tile" < tile_count);
  }

  void PlanScores() {
    builder_.Blank();
    builder_.Append(Statement::Declare("float", "tile_scores[Shape::kKeyPieces][Shape::kPlaces]"));
    if (used_.comparison && !diagonal_) return TakeTileOfCache();
    if (!diagonal_ || tiling_.has_one_tile) return TakeTile(std::nullopt);
    // Only in tiles that the diagonal crosses, each element has to check on which side it is.
    const auto branch = [&](const std::optional<bool>& is_below) {
      builder_.Open(/*is_branch=*/true);
      TakeTile(is_below);
      return builder_.Close();
    };
    const CExpr first =
        builder_.Write(Variable("first_key") + *diagonal_ + 1, CountOf("diagonal", "of the mask"));
    Statement below = Statement::If(first + TileKeys() - 1 <= "first_query", branch(true));
    Statement beyond = Statement::If(first > "first_query" + TileQueries() - 1, branch(false));
    beyond.otherwise = branch(std::nullopt);
    below.otherwise = {std::move(beyond)};
    builder_.Append(std::move(below));
  }

  // Of the tiles of a cache, the last ones alone have keys that a query does not see.
  void TakeTileOfCache() {
    builder_.Open(/*is_branch=*/true);
    lowering_.Assume(used_.comparison);
    TakeTile(std::nullopt, /*sees_all=*/true);
    lowering_.Assume(nullptr);
    Statement seen = Statement::If("first_key" + TileKeys() <= "seen_by_all", builder_.Close());
    builder_.Open(/*is_branch=*/true);
    TakeTile(std::nullopt);
    seen.otherwise = builder_.Close();
    builder_.Append(std::move(seen));
  }

  // Writes the scores of a tile and their use. `is_below` says that the tile is below the diagonal
  // of the mask (true) or beyond it (false); nullopt if the diagonal crosses it.
  void TakeTile(const std::optional<bool>& is_below, bool sees_all = false) {
    const bool whole = IsMultiple(keys_, tile_keys());
    std::vector<Statement> finish = FinishScores(whole, is_below);
    builder_.Comment("The scores: " + ScoreInWords(region_, parts_));
    if (reads_product_)
      builder_.AppendCall("MultiplyKeys<Shape>(memory, here, queries, tile_scores)");
    for (Statement& statement : finish) builder_.Append(std::move(statement));
    builder_.Comment(parts_.has_softmax ? "Softmax of the scores so far, times the values: "
                                          "reduce_max, sub, exp, reduce_sum, matmul"
                                        : "These weights times the values: matmul");
    // A tile of which something is seen can be hidden only by a further mask.
    const bool masked =
        !tiling_.has_one_tile &&
        CountMasks(parts_) > ((diagonal_ && is_below.value_or(true)) || sees_all ? 1 : 0);
    const std::string what = parts_.has_softmax ? "Tile" : "Values";
    builder_.AppendCall(Call(Template(masked ? "AddMasked" + what : "Add" + what, {"Shape"}),
                             {"here", "tile_scores", "attention"}));
  }

  // Writes the pointwise ops between the product and the softmax, or the values. Sets
  // reads_product_. Keys that do not exist get a score of -infinity, or a weight of zero.
  std::vector<Statement> FinishScores(bool whole, const std::optional<bool>& is_below) {
    reads_product_ = whole && parts_.score == parts_.scores->result();
    if (reads_product_) return {};
    builder_.Open(/*is_branch=*/true);
    if (IsMultiple(keys_, kNeighbours))
      ForPairs(whole, is_below);
    else
      ForElements("key_row", tile_keys() / tiling_.memory.key_warps, "Shape::kKeyPieces",
                  "first_key", keys_, KeyCount(),
                  [&](const Expr& query, const Expr& key, const CExpr& unclamped) {
                    FinishScore(query, key, "place", unclamped, whole, is_below);
                  });
    return builder_.Close();
  }

  // Writes the score in `place` of a thread's piece. `unclamped` is the number of the key, which
  // may not exist.
  void FinishScore(const Expr& query, const Expr& key, const CExpr& place, const CExpr& unclamped,
                   bool whole, const std::optional<bool>& is_below) {
    lowering_.OnSelect([&](const Expr& position, const Expr& limit) {
      return DiagonalOf(position, limit, key) ? is_below : std::nullopt;
    });
    const CExpr score_here = CExpr("tile_scores")["piece"][place];
    builder_.Append(Statement::Let("float", "product", score_here));
    builder_.DefineVariable("product", 0, 0);
    const Scalar score =
        EvaluateScore(lowering_, parts_, At(parts_.score, query, key), reads_product_);
    const CExpr count = builder_.Write(keys_, Only(KeyCount()));
    builder_.Assign(score_here, whole ? score.value
                                      : Conditional(unclamped < count, score.value,
                                                    parts_.has_softmax ? "NoScore()" : "0.0f"));
    lowering_.OnSelect(nullptr);
  }

  // Writes the scores of a thread in pairs of consecutive keys, so that their biases and masks are
  // loaded as vectors.
  void ForPairs(bool whole, const std::optional<bool>& is_below) {
    const CExpr neighbours =
        Own("neighbours", kNeighbours, "consecutive keys whose scores a thread has");
    builder_.Open();
    builder_.DefineVariable("row", 0, 1);
    const CExpr first_place = "row" * neighbours;
    const Expr query =
        LetWithin(builder_, "query_row",
                  "first_query" + Call(Template("QueryInTile", {"Shape"}), {first_place}), queries_,
                  Queries(), tile_queries());
    builder_.Open();
    builder_.DefineVariable("piece", 0, tile_keys() / tiling_.memory.key_warps / 8 - 1);
    CExpr pair = ("first_key" + CExpr("KeyInTile<Shape>(piece, 0)")) / neighbours;
    if (!whole) {
      const CExpr last = builder_.Write(keys_, Only(KeyCount())) / neighbours - 1;
      pair = Min(WriteSize(builder_, pair), WriteSize(builder_, last));
    }
    builder_.AppendLet("key_pair", pair);
    builder_.DefineVariable("key_pair", 0, FloorDiv(keys_, kNeighbours, builder_.ranges()) - 1);
    builder_.expressions().NameFactor("key_pair", kNeighbours, neighbours);
    builder_.OpenLanes({"lane", kNeighbours, true, "#pragma unroll", neighbours});
    FinishScore(query, Variable("key_pair") * kNeighbours + Variable("lane"), first_place + "lane",
                "first_key" + CExpr("KeyInTile<Shape>(piece, lane)"), whole, is_below);
    builder_.CloseLanes();
    builder_.CloseFor(IntLoopHeader("piece", 0, "piece < Shape::kKeyPieces"), "#pragma unroll");
    builder_.CloseFor(IntLoopHeader("row", 0, "row < Shape::kRows"), "#pragma unroll");
  }

  // Writes two loops over a thread's elements of the tile: over its queries, and over its columns,
  // which are called `name` and limited to `extent`.
  void ForElements(
      const std::string& name, int tile, const CExpr& pieces, const CExpr& first,
      const Expr& extent, const SizeName& extent_name,
      function_ref<void(const Expr& query, const Expr& column, const CExpr& unclamped)> body) {
    builder_.Open();
    builder_.DefineVariable("place", 0, 3);
    const Expr query = LetWithin(builder_, "query_row", "first_query + QueryInTile<Shape>(place)",
                                 queries_, Queries(), tile_queries());
    builder_.Open();
    builder_.DefineVariable("piece", 0, tile / 8 - 1);
    const CExpr in_tile = first.empty() ? "ColumnInTile(piece, place)"  // of the values
                                        : "KeyInTile<Shape>(piece, place)";
    const CExpr place = first.empty() ? in_tile : first + in_tile;
    const Expr column = LetWithin(builder_, name, place, extent, extent_name, tile);
    body(query, column, place);
    builder_.CloseFor(IntLoopHeader("piece", 0, "piece" < pieces), "#pragma unroll");
    builder_.CloseFor(IntLoopHeader("place", 0, "place < Shape::kPlaces"), "#pragma unroll");
  }

  bool StoresVectors(ArrayRef<const Node*> views) {
    return StoreVectors({region_, parts_, tiling_, columns_, queries_, Queries(), Tile()}, views,
                        builder_, [&](const Expr& row, const Expr& column) {
                          return At(parts_.values->result(), row, column);
                        });
  }

  void StoreResult() {
    const Value* value = region_.body->outputs[0];
    std::vector<const Node*> views;
    while (value->producer->kind == OpKind::kReshape ||
           value->producer->kind == OpKind::kTranspose) {
      views.insert(views.begin(), value->producer);
      value = value->producer->operand(0);
    }
    builder_.Blank();
    if (tiling_.splits_keys()) {
      builder_.Comment("The first warp joins the sums over all parts of the keys.");
      builder_.Open(/*is_branch=*/true);
    }
    std::vector<std::string> words;
    if (parts_.has_softmax) words.push_back("div");
    const bool tests_nan = parts_.guard && parts_.guard_test()->kind == OpKind::kIsNaN;
    if (parts_.guard) words.push_back(tests_nan ? "isnan, where" : "equal, where");
    if (value->producer != parts_.values) words.push_back(GetOpDef(value->producer->kind).text);
    builder_.Comment(words.empty() ? "The result"
                                   : fmt::format("The result: {}", fmt::join(words, ", ")));
    if (parts_.has_softmax)
      builder_.AppendCall(tests_nan      ? "DivideByTotalsOrZero<Shape>(attention)"
                          : parts_.guard ? "DivideByTotalsOfSeen<Shape>(attention)"
                                         : "DivideByTotals<Shape>(attention)");
    if (!tiling_.splits_keys() && value->producer == parts_.values && StoresVectors(views)) return;
    ForElements(
        "column", static_cast<int>(InSteps(columns_)), "Shape::kColumnPieces", {}, columns_,
        ValueColumns(), [&](const Expr& query, const Expr& column, const CExpr& unclamped) {
          builder_.Append(Statement::Let("float", "attended", "attention.values[0][piece][place]"));
          builder_.DefineVariable("attended", 0, 0);
          const Exprs index = At(parts_.values->result(), query, column);
          lowering_.Bind(parts_.values->result(), index, {"attended", dtype()});
          CExpr inside;
          if (!IsMultiple(queries_, tile_queries()))
            inside = "first_query + QueryInTile<Shape>(place)" <
                     builder_.Write(queries_, Only(Queries()));
          if (InSteps(columns_) != columns_)
            inside = And(inside, unclamped < builder_.Write(columns_, Only(ValueColumns())));
          if (!inside.empty()) builder_.Open(/*is_branch=*/true);
          lowering_.Store(0, IndexBehind(views, index, builder_.ranges()),
                          lowering_.Evaluate(value, index));
          if (!inside.empty()) builder_.CloseIf(inside);
        });
    if (!tiling_.splits_keys()) return;
    builder_.CloseIf(
        Call(Template("JoinKeyParts", {"Shape", "Cluster", parts_.has_softmax ? "true" : "false"}),
             {"attention", "memory", builder_.Write(queries_, Only(Queries())) - "first_query"}));
  }

  const Node& region_;
  const PlanOptions& options_;
  KernelBuilder& builder_;
  RegionLowering lowering_;
  TileCopier copier_;
  const AttentionParts parts_;
  const AttentionTiling tiling_;
  Shape heads_;  // the leading dims
  Exprs head_;
  Expr queries_, keys_;
  int64_t depth_ = 0, columns_ = 0;
  std::optional<Expr> diagonal_;  // see FindDiagonal
  UsedRows used_;
  bool reads_product_ = false;  // whether the last scores that were written do
};

}  // namespace

KernelPlan PlanAttention(const Node& region, const PlanOptions& options, KernelBuilder& builder) {
  return AttentionPlanner(region, options, builder).Plan();
}

}  // namespace fusec
