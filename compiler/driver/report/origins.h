#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// The ONNX nodes from which the kernels of a fused graph were made, each once, in order of
// appearance.
class Origins {
 public:
  explicit Origins(const Graph& fused);

  const std::vector<Origin>& all() const { return all_; }
  size_t PlaceOf(const Origin& origin) const { return places_.at(KeyOf(origin)); }

 private:
  using Key = std::tuple<std::string, std::string, std::string, std::string>;
  static Key KeyOf(const Origin& origin) {
    return {origin.onnx_node, origin.onnx_op, origin.module_path, origin.source_line};
  }

  std::vector<Origin> all_;
  std::map<Key, size_t> places_;
};

}  // namespace fusec
