#pragma once

#include <string>
#include <vector>

#include "compiler/import/import_context.h"

namespace fusec {

// The nodes of all trees of an ensemble, in one numbering. Leaves are nodes that lead to
// themselves.
struct TreeNodes {
  enum class Mode { kLessOrEqual, kLess, kGreaterOrEqual, kGreater, kEqual, kNotEqual };

  std::vector<int64_t> features, on_true, on_false;
  std::vector<double> thresholds;
  std::vector<Mode> modes;
  std::vector<bool> missing_is_true;  // whether NaN takes the true branch
  std::vector<int64_t> roots;         // one per tree
  int64_t depth = 0;                  // the most branches between a root and a leaf

  // What leaves add to the scores of classes or targets.
  struct LeafWeight {
    int64_t node, target;
    double weight;
  };
  std::vector<LeafWeight> weights;

  int64_t count() const { return static_cast<int64_t>(features.size()); }
  bool IsLeaf(int64_t node) const { return on_true[node] == node; }
};

// The numbers of an attribute, which may also be given as the tensor `name`_as_tensor.
std::vector<double> NumbersOf(const ImportContext& context, const std::string& name);
// Reads the attributes of TreeEnsembleRegressor and TreeEnsembleClassifier. `leaves` is the prefix
// of those of the leaves, "target" or "class".
Result<TreeNodes> ReadTreeNodes(const ImportContext& context, const std::string& leaves);
// Those of TreeEnsemble.
Result<TreeNodes> ReadTreeEnsemble(const ImportContext& context);

}  // namespace fusec
