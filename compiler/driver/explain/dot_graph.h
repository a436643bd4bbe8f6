#pragma once

#include <string>

#include "compiler/driver/explain/explanation.h"

namespace fusec {

// The fused graph as Graphviz text, which `dot -Tsvg` draws: a cluster for each launch with the ops
// that it computes, ellipses for inputs and outputs, notes for weights. Thick edges are tensors in
// memory, with type and bytes; thin edges are values inside one kernel.
std::string DotText(const Explanation& explanation);

// `text` between double quotes, as Graphviz reads it.
std::string DotQuoted(const std::string& text);

}  // namespace fusec
