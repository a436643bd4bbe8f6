#pragma once

#include <optional>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/adt.h"

namespace fusec {

// A block program: a kernel whose block owns some rows (the leading dims that all its values share)
// and computes value after value for them, keeping in shared memory what later values read.
// Attention, an interaction, a narrow MLP are such chains.
//
// One value that such a block makes. A matmul or reduction is made with what alone follows it:
// `inlined` are the reducers whose loops stand where their elements are used. A concatenation is
// always a stage, made part by part.
struct BlockStage {
  const Value* value = nullptr;
  std::vector<const Node*> inlined;
  bool kept = false;  // a later stage reads it
  // It is a product of a small matrix that an earlier stage keeps for each row, and is made on
  // tensor cores: by another such matrix, or by constant `weights` that the block keeps for all
  // rows.
  bool by_tensor_cores = false;
  const Value* weights = nullptr;
  // The results of the region that hold it, each behind a chain of reshapes and transposes (empty
  // for the value itself).
  struct Stored {
    const Value* result;
    std::vector<const Node*> views;
  };
  std::vector<Stored> stored;
  // The places in concatenations where it stands behind a chain of views: written where it is made.
  struct Part {
    const Value* concat;
    size_t place;  // among its operands
    std::vector<const Node*> views;
  };
  std::vector<Part> parts;
};

// The stages of a group of nodes (in graph order), in the order in which they are made.
// `read_outside` tells the group's results. Empty if some value that would have to be kept has no
// rows of its own: its leading dims are not `rows`. What `by_tensor_cores` says is a stage of its
// own.
struct ByTensorCores {
  bool own_matrices = false;                         // products of matrices that each row has
  function_ref<bool(const Value*)> is_weights = {};  // products by such; none without it
};
std::vector<BlockStage> FindBlockStages(ArrayRef<const Node*> nodes, ShapeRef rows,
                                        function_ref<bool(const Value*)> read_outside,
                                        const ByTensorCores& by_tensor_cores = {});

// The extents of a product by weights, a matrix for each row of a block, if that is what `node` is
// and if tensor cores make it well: it has so many lines that these share what is read of the
// weights.
struct SharedProduct {
  int64_t lines, columns, depth;
};
std::optional<SharedProduct> FindSharedProduct(const Node& node, ShapeRef rows);

// Elements of one row of `value`; 0 where they are not a constant number, or it has no rows.
int64_t ElementsPerRow(const Value* value, ShapeRef rows);
// Shared memory that one row takes: halves are kept as floats.
int64_t KeptBytesPerRow(ArrayRef<BlockStage> stages, ShapeRef rows);
// Of a block without products by weights on tensor cores; every GPU gives 48 KB without being
// asked.
constexpr int64_t kMostKeptBytes = 40 << 10;
bool HasSharedProducts(ArrayRef<BlockStage> stages);
// Shared memory that the weights of such products take.
int64_t SharedWeightBytes(ArrayRef<BlockStage> stages);
bool HasRows(const Value* value, ShapeRef rows);

// The index in a stored result of element `index` of its stage's value.
Exprs IndexBehind(ArrayRef<const Node*> views, ArrayRef<Expr> index, const Ranges& ranges);

}  // namespace fusec
