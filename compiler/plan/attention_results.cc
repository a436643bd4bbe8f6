#include "compiler/plan/attention_results.h"

#include <numeric>

#include "compiler/kernel/idioms.h"
#include "compiler/plan/plan_region.h"
#include "compiler/plan/tile_copier.h"
#include "compiler/region/attention_tiles.h"
#include "compiler/region/block_stages.h"

namespace fusec {

namespace {

constexpr int64_t kVectorBytes = 16;
constexpr int64_t kPaddingBytes = 16;  // after each row in shared memory

}  // namespace

bool StoreVectors(const AttentionResults& results, ArrayRef<const Node*> views,
                  KernelBuilder& builder,
                  function_ref<Exprs(const Expr& row, const Expr& column)> index) {
  const Value *product = results.parts.values->result(), *result = results.region.result(0);
  const int64_t bytes = DtypeBytes(product->type.dtype), columns = results.columns;
  const int64_t lanes = std::gcd<int64_t>(columns, kVectorBytes / bytes);
  const int64_t row_bytes = InSteps(columns) * bytes + kPaddingBytes;
  if (lanes * bytes % 4 != 0 ||
      results.tile.count * row_bytes > results.tiling.memory.shared_bytes())
    return false;
  Ranges ranges = builder.ranges();
  const Expr lane = SetVariable(ranges, "lane", 0, Expr(lanes) - 1);
  const Expr vector = SetVariable(ranges, "vector", 0, Expr(columns / lanes) - 1);
  const Expr row = SetVariable(ranges, "query_row", 0, results.queries - 1);
  const Expr position = Linearize(IndexBehind(views, index(row, vector * lanes + lane), ranges),
                                  result->type.shape, ranges);
  const auto begin = VectorBegin(position, result->type.shape, {"lane", lanes, true, ""});
  if (!begin) return false;
  const CExpr buffer = builder.Buffer(result, /*written=*/true);
  const SizeNames names = PlaceIn(buffer.word(), result->type.shape, {product});
  IndexWriter& constants = builder.expressions();
  const CExpr lanes_name =
      constants.Constant("lanes", lanes, "elements that a thread accesses at once");
  builder.Append(Statement::Declare(CExpr::Type("const Shape::Results&"), "results",
                                    "ShareResults<Shape>(attention, memory)"));
  const VectorsOfRows rows = {
      "query_in_tile", results.tile.count, results.tile.name, columns / lanes,
      constants.Constant("result_vectors", columns / lanes, "vectors of a query's result")};
  ForVectors(builder, rows, [&] {
    constants.NameFactor("vector", lanes, lanes_name);
    builder.AppendLet("query_row", "first_query" + CExpr("query_in_tile"));
    builder.DefineVariable("query_row", 0, results.queries - 1);
    const CExpr read = Template("ReadResults", {MemoryTypeName(product->type.dtype), lanes_name});
    const CExpr store = Call("StoreVector", {PointerTo(builder, buffer, *begin, names),
                                             Call(read, {"results", "query_in_tile", "vector"})});
    if (IsMultiple(results.queries, results.tile.count))
      builder.AppendCall(store);
    else
      builder.AppendIf("query_row" < builder.Write(results.queries, Only(results.queries_name)),
                       store);
  });
  return true;
}

}  // namespace fusec
