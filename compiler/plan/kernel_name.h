#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// The name of region number `number` of a graph. It has the number, which is also the region's
// place in the order of execution, and then up to three words for the most characteristic ops of
// the region, in the order in which they are executed:
//
//   k00_mod_embedding_concat   k02_attention   k03_linear_add   k05_layer_norm_linear_gelu
//
// A word is the name of a group of ops (op_groups.h) or of an op. Words are taken in this order of
// preference:
//
//   1. groups, products, and ops that process their elements sequentially (top_k, scatter_nd)
//   2. embedding, other gathers, reductions, concat
//   3. activations and other functions, mod (which hashes ids)
//   4. arithmetic
//   5. arithmetic of integers and bools, which computes ids and masks, or of constants
//   6. casts, sizes;  7. views
//
// Up to three words of the first four kinds are taken, without duplicates; if there are none, words
// of the fifth kind, and so on. A word that would make the name longer than 40 characters is left
// out. If several kernels can compute a region, each appends a suffix to this name:
// k01_linear_relu_tile_32x64.
std::string RegionName(const Node& region, size_t number);

// The names of all ops of a region, in order, without duplicates. Views are listed only if there is
// nothing else.
std::vector<std::string> OpNames(const Node& region);

}  // namespace fusec
