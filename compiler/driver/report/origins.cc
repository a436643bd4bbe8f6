#include "compiler/driver/report/origins.h"

#include "compiler/driver/artifact/artifact_ir.h"

namespace fusec {

Origins::Origins(const Graph& fused) {
  for (const Node* region : RegionsOf(fused)) {
    for (const auto& node : region->body->nodes) {
      for (const Origin& origin : node->provenance) {
        if (places_.emplace(KeyOf(origin), all_.size()).second) all_.push_back(origin);
      }
    }
  }
}

}  // namespace fusec
