#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "compiler/kernel/kernel_builder.h"
#include "compiler/kernel/region_lowering.h"
#include "compiler/support/adt.h"

namespace fusec {

// Rows of an operand that a block brings to shared memory together.
struct TileRows {
  std::string name;      // the name of one row, such as "key"
  const Value* operand;  // inside the region
  std::string first;     // the local with the number of the first row
  Expr count;            // the number of all rows that exist
  SizeName count_name;
  int tile_rows;
  CExpr tile_rows_name;
  int64_t elements;  // per row
  CExpr array;       // in shared memory: has at(row, word)
  std::function<Exprs(const Expr& row, const Expr& element)> at;  // index in `operand`
  // Rows from the local `limit` on are zeros, if there is one; the others are elements of the
  // tensor and the index that `before_limit` gives for an index in `operand`.
  CExpr limit = {};
  std::function<std::pair<const Value*, Exprs>(ArrayRef<Expr> index, const Expr& row,
                                               const Ranges& ranges)>
      before_limit = {};
};

// Writes the code with which a block brings rows to shared memory. Rows that have the wanted layout
// in memory are copied asynchronously; others are computed element by element.
class TileCopier {
 public:
  TileCopier(const Node& region, KernelBuilder& builder, RegionLowering& lowering)
      : region_(region), builder_(builder), lowering_(lowering) {}

  // Writes that code and returns whether it uses asynchronous copies. Rows beyond the last one
  // become zeros.
  bool Stage(const TileRows& rows);

 private:
  // A tile whose rows have the wanted layout in memory.
  struct TileInMemory {
    const Value* tensor;
    Expr begin;   // the position of the tile
    Expr inside;  // the offset from `begin` of vector `vector` of row `NAME_in_tile`
  };
  std::optional<TileInMemory> Find(const TileRows& rows) const;
  // Declares a pointer to the first row of the tile and returns its name.
  CExpr NameTile(const TileRows& rows, const TileInMemory& tile);
  // The names of the sizes in positions of the tensor.
  SizeNames PlaceIn(const TileRows& rows, const TileInMemory& tile) const;
  void Copy(const TileRows& rows, const TileInMemory& tile, const CExpr& name, const CExpr& place,
            const CExpr& inside);
  void Compute(const TileRows& rows, const CExpr& place, const CExpr& inside);
  CExpr LanesName(const TileRows& rows);

  const Node& region_;
  KernelBuilder& builder_;
  RegionLowering& lowering_;
};

// Rows of vectors that are divided among the threads of a block.
struct VectorsOfRows {
  std::string row_name;  // the local with the number of a row
  int64_t rows;
  CExpr rows_name;
  int64_t vectors;  // per row
  CExpr vectors_name;
};
// Writes a loop in which a thread executes `body` for each of its vectors; the locals
// `rows.row_name` and `vector` are the vector's row and its number there.
void ForVectors(KernelBuilder& builder, const VectorsOfRows& rows, function_ref<void()> body);
// Defines the local `name` = `value`, limited to extent - 1 if a tile may go beyond `extent`.
Expr LetWithin(KernelBuilder& builder, const std::string& name, const CExpr& value,
               const Expr& extent, const SizeName& extent_name, int tile);

}  // namespace fusec
