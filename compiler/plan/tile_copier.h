#pragma once

#include <functional>
#include <optional>
#include <string>

#include "compiler/kernel/kernel_builder.h"
#include "compiler/kernel/region_lowering.h"
#include "compiler/support/adt.h"

namespace fusec {

// Rows that go to shared memory together.
struct TileRows {
  std::string name;      // of one, "key"
  const Value* operand;  // inside the region
  std::string first;     // the local that says which row the first is
  Expr count;            // of all that exist
  SizeName count_name;
  int tile_rows;
  CExpr tile_rows_name;
  int64_t elements;  // of a row
  CExpr array;       // in shared memory: has at(row, word)
  std::function<Exprs(const Expr& row, const Expr& element)> at;  // index in operand
};

// Writes how a block brings rows to its shared memory: those that lie in memory as they are wanted
// by copies in the background, others made element by element.
class TileCopier {
 public:
  TileCopier(const Node& region, KernelBuilder& builder, RegionLowering& lowering)
      : region_(region), builder_(builder), lowering_(lowering) {}

  // Whether they go by copies in the background. What stands beyond the last row is zeros.
  bool Stage(const TileRows& rows);

 private:
  // Where rows of a tile lie in memory as they are wanted there.
  struct TileInMemory {
    const Value* tensor;
    Expr begin;   // of the tile
    Expr inside;  // from there, of vector `vector` of row `NAME_in_tile`
  };
  std::optional<TileInMemory> Find(const TileRows& rows) const;
  // Names a pointer to the first row of the tile; returns the name.
  CExpr NameTile(const TileRows& rows, const TileInMemory& tile);
  // What positions in the tensor are made of.
  SizeNames PlaceIn(const TileRows& rows, const TileInMemory& tile) const;
  void Copy(const TileRows& rows, const TileInMemory& tile, const CExpr& name, const CExpr& place,
            const CExpr& inside);
  void Compute(const TileRows& rows, const CExpr& place, const CExpr& inside);
  CExpr LanesName(const TileRows& rows);

  const Node& region_;
  KernelBuilder& builder_;
  RegionLowering& lowering_;
};

// Rows of vectors that the threads of a block share out.
struct VectorsOfRows {
  std::string row_name;  // the local for a row
  int64_t rows;
  CExpr rows_name;
  int64_t vectors;  // of a row
  CExpr vectors_name;
};
// Writes a loop of `body`, in which the locals `rows.row_name` and `vector` say which a thread has.
void ForVectors(KernelBuilder& builder, const VectorsOfRows& rows, function_ref<void()> body);
// A local that counts up to `extent`, or stays at its last where the tile goes beyond.
Expr LetWithin(KernelBuilder& builder, const std::string& name, const CExpr& value,
               const Expr& extent, const SizeName& extent_name, int tile);

}  // namespace fusec
