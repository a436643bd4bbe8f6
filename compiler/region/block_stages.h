#pragma once

#include <optional>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/adt.h"

namespace fusec {

// A block program is a kernel in which each thread block owns some rows (indices of the leading
// dims that all its values share). It computes value after value for them and keeps in shared
// memory what later values read. Attention, a feature interaction and a narrow MLP are such chains.
//
// One value that such a block computes. A matmul or reduction is computed together with the ops
// that alone follow it: `inlined` are the reducers whose loops are placed where their elements are
// used. A concatenation is always a stage of its own, computed part by part.
struct BlockStage {
  const Value* value = nullptr;
  std::vector<const Node*> inlined;
  bool kept = false;  // a later stage reads it
  // It is a product computed on tensor cores. Its left factor is a small matrix that an earlier
  // stage keeps for each row; its right factor is another such matrix, or constant `weights` that
  // the block keeps for all rows.
  bool by_tensor_cores = false;
  const Value* weights = nullptr;
  // The results of the region that contain it, each after a chain of reshapes and transposes (empty
  // for the value itself).
  struct Stored {
    const Value* result;
    std::vector<const Node*> views;
  };
  std::vector<Stored> stored;
  // The concatenations of which it is a part, after a chain of views. It is written there as soon
  // as it is computed.
  struct Part {
    const Value* concat;
    size_t place;  // operand index
    std::vector<const Node*> views;
  };
  std::vector<Part> parts;
};

// The stages of a group of nodes (in graph order), in the order of their computation.
// `read_outside` tells whether a value is a result of the group. Empty if a value that has to be
// kept does not have the leading dims `rows`. Products that `by_tensor_cores` selects are stages of
// their own.
struct ByTensorCores {
  bool own_matrices = false;                         // products of two matrices per row
  function_ref<bool(const Value*)> is_weights = {};  // products by weights; none if null
};
std::vector<BlockStage> FindBlockStages(ArrayRef<const Node*> nodes, ShapeRef rows,
                                        function_ref<bool(const Value*)> read_outside,
                                        const ByTensorCores& by_tensor_cores = {});

// The extents of a product of a matrix per row with common weights, if `node` is such a product and
// suits tensor cores: it needs enough lines (rows of the left matrix) to share what is read of the
// weights.
struct SharedProduct {
  int64_t lines, columns, depth;
};
std::optional<SharedProduct> FindSharedProduct(const Node& node, ShapeRef rows);

// Elements of one row of `value`; 0 if that is not a constant number or `value` has no rows.
int64_t ElementsPerRow(const Value* value, ShapeRef rows);
// Bytes of shared memory per row. 16-bit elements are kept as floats.
int64_t KeptBytesPerRow(ArrayRef<BlockStage> stages, ShapeRef rows);
// The most such bytes of a block without products by weights on tensor cores. Every GPU provides 48
// KB without opting in to more.
constexpr int64_t kMostKeptBytes = 40 << 10;
bool HasSharedProducts(ArrayRef<BlockStage> stages);
// Bytes of shared memory for the weights of such products.
int64_t SharedWeightBytes(ArrayRef<BlockStage> stages);
bool HasRows(const Value* value, ShapeRef rows);

// The index in a stored result of element `index` of its stage's value, after `views`.
Exprs IndexBehind(ArrayRef<const Node*> views, ArrayRef<Expr> index, const Ranges& ranges);

}  // namespace fusec
