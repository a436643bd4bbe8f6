#include "compiler/plan/tile_copier.h"

#include <algorithm>
#include <numeric>

#include "compiler/ir/c_text.h"
#include "compiler/plan/plan_region.h"
#include "compiler/region/memory_place.h"

namespace fusec {

namespace {

Dtype DtypeOf(const TileRows& rows) { return rows.operand->type.dtype; }
std::string RowInTile(const TileRows& rows) { return rows.name + "_in_tile"; }

// A local of 32 bits.
void LetSmall(KernelBuilder& builder, const std::string& name, const std::string& text,
              const Expr& extent) {
  builder.Append({Statement::Kind::kLet, "int", name, text, {}, {}});
  builder.DefineVariable(name, 0, extent - 1);
}

// Elements that are copied at once.
int64_t Lanes(const TileRows& rows) {
  return std::gcd<int64_t>(rows.elements, 16 / DtypeBytes(DtypeOf(rows)));
}

}  // namespace

void ForVectors(KernelBuilder& builder, const VectorsOfRows& rows,
                function_ref<void()> body) {
  const std::string size = BlockSizeName(builder);
  const int block_size = builder.plan().block_size;
  const std::string count = rows.rows_name + " * " + rows.vectors_name;
  const bool is_whole = rows.rows * rows.vectors % block_size == 0;
  // Threads that keep their place in a row leave the compiler less to count.
  const bool keep_place = is_whole && block_size % rows.vectors == 0;
  builder.Open();
  if (!keep_place) {
    builder.DefineVariable("i", 0, rows.rows * rows.vectors - 1);
    if (is_whole)
      builder.Append(
          {Statement::Kind::kLet, "int", "i", "round * " + size + " + threadIdx.x", {}, {}});
  }
  const std::string thread = keep_place ? "threadIdx.x" : "i";
  const std::string first_row =
      keep_place ? "round * (" + size + " / " + rows.vectors_name + ") + " : "";
  LetSmall(builder, rows.row_name, first_row + thread + " / " + rows.vectors_name, rows.rows);
  LetSmall(builder, "vector", thread + " % " + rows.vectors_name, rows.vectors);
  body();
  if (is_whole)
    Unroll(builder, "int round = 0; round < " + count + " / " + size + "; ++round");
  else
    builder.CloseFor("int i = threadIdx.x; i < " + count + "; i += " + size);
}

std::string TileCopier::LanesName(const TileRows& rows) {
  return builder_.expressions().Constant("lanes", Lanes(rows),
                                         "neighbours that a thread takes at once");
}

bool TileCopier::Stage(const TileRows& rows) {
  const int64_t vectors = rows.elements / Lanes(rows);
  const std::string row = RowInTile(rows);
  const std::string vectors_name =
      builder_.expressions().Constant(rows.name + "_vectors", vectors, "of a " + rows.name);
  const std::string inside =
      IsMultiple(rows.count, rows.tile_rows)
          ? ""
          : rows.first + " + " + row + " < " + builder_.Write(rows.count, Only(rows.count_name));
  const std::string words = builder_.expressions().Constant(
      "vector_words", Lanes(rows) * DtypeBytes(DtypeOf(rows)) / 4, "of 32 bits");
  const std::string place = rows.array + ".at(" + row + ", vector * " + words + ")";
  const auto tile = Find(rows);
  const std::string name = tile ? NameTile(rows, *tile) : "";
  ForVectors(builder_, {row, rows.tile_rows, rows.tile_rows_name, vectors, vectors_name}, [&] {
    builder_.expressions().NameFactor("vector", Lanes(rows), LanesName(rows));
    if (tile)
      Copy(rows, *tile, name, place, inside);
    else
      Compute(rows, place, inside);
  });
  return tile.has_value();
}

std::optional<TileCopier::TileInMemory> TileCopier::Find(const TileRows& rows) const {
  const int64_t lanes = Lanes(rows);
  const KernelBuilder::Lanes lane{"lane", lanes, true, ""};
  const std::string row = rows.name + "_row", row_in_tile = RowInTile(rows);
  Ranges ranges = builder_.ranges();
  ranges.Set(lane.variable, 0, Expr(lanes) - 1);
  ranges.Set("vector", 0, Expr(rows.elements / lanes) - 1);
  ranges.Set(row, 0, rows.count - 1);
  ranges.Set(row_in_tile, 0, Expr(rows.tile_rows) - 1);
  const Exprs index =
      rows.at(Expr::Symbol(row), Expr::Symbol("vector") * lanes + Expr::Symbol(lane.variable));
  const auto found = FindInMemory(region_, rows.operand, index, ranges);
  if (!found || found->tensor->type.dtype != DtypeOf(rows)) return std::nullopt;
  const auto base = VectorBegin(found->position, found->tensor->type.shape, lane);
  if (!base) return std::nullopt;
  const Expr position = base->Substitute(
      [&](const std::string& name) {
        return name == row ? std::optional(Expr::Symbol(rows.first) + Expr::Symbol(row_in_tile))
                           : std::nullopt;
      },
      ranges);
  TileInMemory tile{found->tensor, 0, 0};
  const auto is_inside = [&](const std::string& name) {
    return name == row_in_tile || name == "vector";
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
  // Places inside a tile are counted in 32 bits.
  if (ranges.IntervalOf(tile.inside).high > INT32_MAX) return std::nullopt;
  return tile;
}

SizeNames TileCopier::PlaceIn(const TileRows& rows, const TileInMemory& tile) const {
  return fusec::PlaceIn(NameOf(builder_, tile.tensor), tile.tensor->type.shape, {rows.operand});
}

std::string TileCopier::NameTile(const TileRows& rows, const TileInMemory& tile) {
  const std::string buffer = builder_.Buffer(tile.tensor);
  builder_.Append({Statement::Kind::kLet,
                   MemoryTypeName(DtypeOf(rows)) + "*",
                   rows.name + "_tile",
                   PlaceText(builder_, buffer, tile.begin, PlaceIn(rows, tile)),
                   {},
                   {}});
  return rows.name + "_tile";
}

// Copies a vector in the background.
void TileCopier::Copy(const TileRows& rows, const TileInMemory& tile, const std::string& name,
                      const std::string& place, const std::string& inside) {
  const std::string source = PlaceText(builder_, name, tile.inside, PlaceIn(rows, tile));
  const std::string bytes = builder_.expressions().Constant(
      "vector_bytes", Lanes(rows) * DtypeBytes(DtypeOf(rows)), "of a copy");
  builder_.AppendCall("CopyAsync<" + bytes + ">(" + place + ", " +
                      (inside.empty() ? source + ", true"
                                      : inside + " ? " + source + " : " + name + ", " + inside) +
                      ")");
}

// Makes a vector, element by element.
void TileCopier::Compute(const TileRows& rows, const std::string& place,
                         const std::string& inside) {
  const Expr row = LetWithin(builder_, rows.name + "_row", rows.first + " + " + RowInTile(rows),
                             rows.count, rows.count_name, rows.tile_rows);
  const int64_t lanes = Lanes(rows);
  const std::string name = LanesName(rows);
  builder_.OpenLanes({"lane", lanes, true, "#pragma unroll", name});
  builder_.BeforeLanes({Statement::Kind::kDeclare,
                        "Vector<" + MemoryTypeName(DtypeOf(rows)) + ", " + name + ">",
                        "copy",
                        "",
                        {},
                        {}});
  const Expr element = Expr::Symbol("vector") * lanes + Expr::Symbol("lane");
  std::string text = lowering_.Evaluate(rows.operand, rows.at(row, element)).text;
  if (!inside.empty()) text = inside + " ? " + text + " : 0.0f";
  builder_.Assign("copy.at[lane]", ToMemory(text, DtypeOf(rows)));
  builder_.AfterLanes({Statement::Kind::kCall, "", "", "KeepVector(" + place + ", copy)", {}, {}});
  builder_.CloseLanes();
}

Expr LetWithin(KernelBuilder& builder, const std::string& name, const std::string& text,
               const Expr& extent, const SizeName& extent_name, int tile) {
  std::string within = text;
  if (!IsMultiple(extent, tile)) {
    const std::string last = builder.Write(extent, Only(extent_name)) + " - 1";
    within = "min(" + WriteSize(builder, text) + ", " + WriteSize(builder, last) + ")";
  }
  builder.AppendLet(name, within);
  builder.DefineVariable(name, 0, extent - 1);
  return Expr::Symbol(name);
}

void Unroll(KernelBuilder& builder, const std::string& header) {
  std::vector<Statement> body = builder.Close();
  builder.Append({Statement::Kind::kPragma, "", "", "#pragma unroll", {}, {}});
  builder.Append({Statement::Kind::kFor, "", "", header, std::move(body), {}});
}

}  // namespace fusec
