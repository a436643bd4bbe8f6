#pragma once

#include <optional>
#include <string>

#include "compiler/ir/graph.h"

namespace fusec {

// Which outputs lie in the memory of which inputs (--in-place): names, or patterns with one star
// each, which stands for the same text in both.
struct InPlace {
  std::string output, input;

  // The name of the input for an output of this name; nullopt if the pattern does not match it.
  std::optional<std::string> InputOf(const std::string& output_name) const;
};

// Attribute of a tensor_scatter, and of the scatter_elements that it becomes, whose result lies in
// the memory of its data, an input of the model: 1. Nothing else reads the data
// (passes/update_in_place.h).
inline constexpr const char* kInPlace = "in_place";

// Whether `node` is such a scatter_elements. Its kernel writes only the updates, no two of them to
// one place.
bool IsInPlace(const Node& node);

// The input of the graph in whose memory this output of it lies; null for most outputs.
const Value* InputInPlaceOf(const Value* output);

}  // namespace fusec
