#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// The name of region number `number` of a graph: that number, which is also its place in the order
// of execution, and then up to three words that say most of what the region does, in the order in
// which it does it:
//
//   k00_mod_embedding_concat   k02_attention   k03_linear_add   k05_layer_norm_linear_gelu
//
// A word is the name of a group of ops that the field has a name for (op_groups.h), or of an op.
// Which words are taken:
//
//   1. groups, products, and ops that go through their elements in order (top_k, scatter_nd)
//   2. embedding, other gathers, reductions, concat
//   3. activations and other functions, mod (which hashes ids)
//   4. arithmetic
//   5. arithmetic of integers and bools, which makes ids and masks, or of constants
//   6. casts, sizes;  7. views
//
// Three of the first four kinds, the first ones of each, no word twice; if there are none, of the
// fifth, and so on. A word that would make the name longer than 40 characters is left out. Where
// several kernels can make a region, each has more behind this name: k01_linear_relu_tile_32x64.
std::string RegionName(const Node& region, size_t number);

// All ops of a region by their own names, in order, none twice; views only where there is nothing
// else.
std::vector<std::string> OpNames(const Node& region);

}  // namespace fusec
