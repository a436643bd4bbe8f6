#include "compiler/plan/tile_copier.h"

#include <algorithm>
#include <numeric>

#include "compiler/ir/c_text.h"
#include "compiler/kernel/idioms.h"
#include "compiler/plan/plan_region.h"
#include "compiler/region/memory_place.h"

namespace fusec {

namespace {

Dtype DtypeOf(const TileRows& rows) { return rows.operand->type.dtype; }
std::string RowInTile(const TileRows& rows) { return rows.name + "_in_tile"; }

// Declares a local of type int.
void LetSmall(KernelBuilder& builder, const std::string& name, const CExpr& value,
              const Expr& extent) {
  builder.Append(Statement::Let("int", name, value));
  builder.DefineVariable(name, 0, extent - 1);
}

// The number of elements that are copied at once.
int64_t Lanes(const TileRows& rows) {
  return std::gcd<int64_t>(rows.elements, 16 / DtypeBytes(DtypeOf(rows)));
}

}  // namespace

void ForVectors(KernelBuilder& builder, const VectorsOfRows& rows, function_ref<void()> body) {
  const CExpr size = BlockSizeName(builder);
  const int block_size = builder.plan().block_size;
  const CExpr count = rows.rows_name * rows.vectors_name;
  const bool is_whole = rows.rows * rows.vectors % block_size == 0;
  // If each thread keeps its place within a row, fewer index computations are needed.
  const bool keep_place = is_whole && block_size % rows.vectors == 0;
  builder.Open();
  if (!keep_place) {
    builder.DefineVariable("i", 0, rows.rows * rows.vectors - 1);
    if (is_whole) builder.Append(Statement::Let("int", "i", "round" * size + "threadIdx.x"));
  }
  const CExpr thread = keep_place ? "threadIdx.x" : "i", row = thread / rows.vectors_name;
  LetSmall(builder, rows.row_name, keep_place ? "round" * (size / rows.vectors_name) + row : row,
           rows.rows);
  LetSmall(builder, "vector", thread % rows.vectors_name, rows.vectors);
  body();
  if (is_whole)
    builder.CloseFor(IntLoopHeader("round", 0, "round" < count / size), "#pragma unroll");
  else
    builder.CloseFor(IntLoopHeader("i", "threadIdx.x", "i" < count, size));
}

CExpr TileCopier::LanesName(const TileRows& rows) {
  return builder_.expressions().Constant("lanes", Lanes(rows),
                                         "elements that a thread accesses at once");
}

bool TileCopier::Stage(const TileRows& rows) {
  const int64_t vectors = rows.elements / Lanes(rows);
  const std::string row = RowInTile(rows);
  const CExpr vectors_name =
      builder_.expressions().Constant(rows.name + "_vectors", vectors, "vectors per " + rows.name);
  CExpr inside;
  if (!IsMultiple(rows.count, rows.tile_rows))
    inside = CExpr(rows.first) + row < builder_.Write(rows.count, Only(rows.count_name));
  const CExpr words = builder_.expressions().Constant(
      "vector_words", Lanes(rows) * DtypeBytes(DtypeOf(rows)) / 4, "words of 32 bits per vector");
  const CExpr place = Call(rows.array.Dot("at"), {row, "vector" * words});
  const auto tile = Find(rows);
  const CExpr name = tile ? NameTile(rows, *tile) : CExpr();
  ForVectors(builder_, {row, rows.tile_rows, rows.tile_rows_name, vectors, vectors_name}, [&] {
    builder_.expressions().NameFactor("vector", Lanes(rows), LanesName(rows));
    if (tile)
      Copy(rows, *tile, name, place,
           rows.limit.empty() ? inside : CExpr(rows.first) + row < rows.limit);
    else
      Compute(rows, place, inside);
  });
  return tile.has_value();
}

std::optional<TileCopier::TileInMemory> TileCopier::Find(const TileRows& rows) const {
  const int64_t lanes = Lanes(rows);
  const KernelBuilder::Lanes lane{"lane", lanes, true, ""};
  const std::string row = VariableSymbol(rows.name + "_row"),
                    row_in_tile = VariableSymbol(RowInTile(rows)),
                    vector = VariableSymbol("vector");
  Ranges ranges = builder_.ranges();
  const Expr at_lane = SetVariable(ranges, lane.variable, 0, Expr(lanes) - 1);
  ranges.Set(vector, 0, Expr(rows.elements / lanes) - 1);
  ranges.Set(row, 0, rows.count - 1);
  ranges.Set(row_in_tile, 0, Expr(rows.tile_rows) - 1);
  std::pair<const Value*, Exprs> element(
      rows.operand, rows.at(Expr::Symbol(row), Expr::Symbol(vector) * lanes + at_lane));
  if (rows.before_limit) element = rows.before_limit(element.second, Expr::Symbol(row), ranges);
  const auto found = FindInMemory(region_, element.first, element.second, ranges);
  if (!found || found->tensor->type.dtype != DtypeOf(rows)) return std::nullopt;
  const auto base = VectorBegin(found->position, found->tensor->type.shape, lane);
  if (!base) return std::nullopt;
  const Expr position = base->Substitute(
      [&](const std::string& name) {
        return name == row ? std::optional(Variable(rows.first) + Expr::Symbol(row_in_tile))
                           : std::nullopt;
      },
      ranges);
  TileInMemory tile{found->tensor, 0, 0};
  const auto is_inside = [&](const std::string& name) {
    return name == row_in_tile || name == vector;
  };
  for (const Expr::Term& term : position.terms()) {
    const Expr part = Expr::FromTerms({term});
    std::vector<std::string> symbols;
    part.CollectSymbols(symbols);
    if (std::none_of(symbols.begin(), symbols.end(), is_inside))
      tile.begin = tile.begin + part;
    else if (std::all_of(symbols.begin(), symbols.end(), is_inside))
      tile.inside = tile.inside + part;
    else
      return std::nullopt;
  }
  // Positions inside a tile are computed in 32 bits.
  if (ranges.IntervalOf(tile.inside).high > INT32_MAX) return std::nullopt;
  return tile;
}

SizeNames TileCopier::PlaceIn(const TileRows& rows, const TileInMemory& tile) const {
  return fusec::PlaceIn(NameOf(builder_, tile.tensor), tile.tensor->type.shape, {rows.operand});
}

CExpr TileCopier::NameTile(const TileRows& rows, const TileInMemory& tile) {
  const CExpr buffer = builder_.Buffer(tile.tensor);
  builder_.Append(Statement::Let(CExpr::Type(MemoryTypeName(DtypeOf(rows)) + "*"),
                                 rows.name + "_tile",
                                 PointerTo(builder_, buffer, tile.begin, PlaceIn(rows, tile))));
  return rows.name + "_tile";
}

// Writes an asynchronous copy of a vector.
void TileCopier::Copy(const TileRows& rows, const TileInMemory& tile, const CExpr& name,
                      const CExpr& place, const CExpr& inside) {
  const CExpr source = PointerTo(builder_, name, tile.inside, PlaceIn(rows, tile));
  const CExpr bytes = builder_.expressions().Constant(
      "vector_bytes", Lanes(rows) * DtypeBytes(DtypeOf(rows)), "bytes per copy");
  builder_.AppendCall(inside.empty() ? Call(Template("CopyAsync", {bytes}), {place, source, "true"})
                                     : Call(Template("CopyAsync", {bytes}),
                                            {place, Conditional(inside, source, name), inside}));
}

// Writes the computation of a vector, element by element.
void TileCopier::Compute(const TileRows& rows, const CExpr& place, const CExpr& inside) {
  const Expr row = LetWithin(builder_, rows.name + "_row", CExpr(rows.first) + RowInTile(rows),
                             rows.count, rows.count_name, rows.tile_rows);
  const int64_t lanes = Lanes(rows);
  const CExpr name = LanesName(rows);
  builder_.OpenLanes({"lane", lanes, true, "#pragma unroll", name});
  builder_.BeforeLanes(Statement::Declare(VectorType(MemoryTypeName(DtypeOf(rows)), name), "copy"));
  const Expr element = Variable("vector") * lanes + Variable("lane");
  CExpr value = lowering_.Evaluate(rows.operand, rows.at(row, element)).value;
  if (!inside.empty()) value = Conditional(inside, value, "0.0f");
  builder_.Assign("copy.at[lane]", ToMemory(value, DtypeOf(rows)));
  builder_.AfterLanes(Statement::Call(Call("KeepVector", {place, "copy"})));
  builder_.CloseLanes();
}

Expr LetWithin(KernelBuilder& builder, const std::string& name, const CExpr& value,
               const Expr& extent, const SizeName& extent_name, int tile) {
  CExpr within = value;
  if (!IsMultiple(extent, tile)) {
    const CExpr last = builder.Write(extent, Only(extent_name)) - 1;
    within = Min(WriteSize(builder, value), WriteSize(builder, last));
  }
  builder.AppendLet(name, within);
  return builder.DefineVariable(name, 0, extent - 1);
}

}  // namespace fusec
