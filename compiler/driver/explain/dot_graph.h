#pragma once

#include <string>

#include "compiler/driver/explain/explanation.h"

namespace fusec {

// The fused graph as Graphviz text (`dot -Tsvg` draws it): a cluster per launch with the ops that
// it computes, ellipses for inputs and outputs, notes for weights. Thick edges are tensors in
// memory, with type and bytes; thin ones stay inside their kernel.
std::string DotText(const Explanation& explanation);

// `text` between double quotes, as Graphviz reads it.
std::string DotQuoted(const std::string& text);

}  // namespace fusec
