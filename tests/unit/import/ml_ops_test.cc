// Ops of ai.onnx.ml that cannot be imported: each error names the node and what is wrong with it. Their answers are compared with
// onnxruntime's in tests/conformance/ml_cases.py.
#include "tests/unit/import/import_fixture.h"

namespace fusec {
namespace {

class MlOps : public Import {
 protected:
  // The error of a model with one node, whose text is `op` with its attributes and `(x)`.
  std::string ErrorOfNode(const std::string& node, const std::string& x = "float[n, 2]") {
    return ErrorOf(Load("g (" + x + " x) => (float[n, m] y) { [\"it\"] y = ai.onnx.ml." + node + " }",
                        {}, "ir_version: 8, opset_import: [\"\": 17, \"ai.onnx.ml\": 3]"));
  }
  // A regressor with one branch, node 0, whose features, children and target are these.
  std::string Branch(int64_t feature, int64_t on_true, int64_t on_false, int64_t target,
                     const std::string& mode = "BRANCH_LEQ") {
    return "TreeEnsembleRegressor<nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2], nodes_featureids = [" +
           std::to_string(feature) + ", 0, 0], nodes_values = [0.5, 0.0, 0.0], nodes_modes = [\"" + mode +
           "\", \"LEAF\", \"LEAF\"], nodes_truenodeids = [" + std::to_string(on_true) +
           ", 0, 0], nodes_falsenodeids = [" + std::to_string(on_false) +
           ", 0, 0], target_treeids = [0, 0], target_nodeids = [1, 2], target_ids = [0, " +
           std::to_string(target) + "], target_weights = [1.0, 2.0], n_targets = 1>(x)";
  }
  const std::string in_regressor_ = "m.onnxtxt: node \"it\" (TreeEnsembleRegressor): ";
};

TEST_F(MlOps, ATreeIsOneComparisonAndTwoLeaves) {
  const auto model = Load("g (float[n, 2] x) => (float[n, 1] y) { y = ai.onnx.ml." + Branch(1, 1, 2, 0) + " }", {},
                          "ir_version: 8, opset_import: [\"ai.onnx.ml\": 3]");
  ASSERT_TRUE(model) << ErrorOf(model);
  EXPECT_EQ(Answer(*model->graph, {F32({3, 2}, {9, 0.25, 9, 0.5, 9, 0.75})}), (std::vector<double>{1, 1, 2}));
}

TEST_F(MlOps, DamagedTreesAreNamed) {
  EXPECT_EQ(ErrorOfNode(Branch(2, 1, 2, 0)), in_regressor_ + "node 0 compares feature 2 of x, f32[n, 2]");
  EXPECT_EQ(ErrorOfNode(Branch(0, 1, 7, 0)), in_regressor_ + "node 0 of tree 0 leads to node 7, which is not there");
  EXPECT_EQ(ErrorOfNode(Branch(0, 0, 2, 0)), in_regressor_ + "node 0 of tree 0 leads to node 0, which is itself");
  EXPECT_EQ(ErrorOfNode(Branch(0, 1, 2, 5)), in_regressor_ + "a leaf has a weight for class or target 5, expected 0 to 0");
  EXPECT_EQ(ErrorOfNode(Branch(0, 1, 2, 0, "BRANCH")), in_regressor_ + "the mode of a node is \"BRANCH\"");
  EXPECT_EQ(ErrorOfNode(Branch(0, 1, 2, 0), "float[n, 2, 2]"),
            in_regressor_ + "the features are f32[n, 2, 2], expected [rows, features]");
}

TEST_F(MlOps, NodesThatLeadToEachOtherAreNoTree) {
  const std::string cycle =
      "TreeEnsembleRegressor<nodes_treeids = [0, 0, 0, 0], nodes_nodeids = [0, 1, 2, 3], nodes_featureids = [0, 0, 0, 0], "
      "nodes_values = [0.5, 0.5, 0.5, 0.0], nodes_modes = [\"BRANCH_LT\", \"BRANCH_LT\", \"BRANCH_LT\", \"LEAF\"], "
      "nodes_truenodeids = [1, 2, 1, 0], nodes_falsenodeids = [3, 3, 3, 0], target_treeids = [0], target_nodeids = [3], "
      "target_ids = [0], target_weights = [1.0], n_targets = 1>(x)";
  EXPECT_EQ(ErrorOfNode(cycle), in_regressor_ + "a tree has a cycle, or more than 256 branches on a path, which fusec does not support");
}

TEST_F(MlOps, WhatIsMissingIsNamed) {
  EXPECT_EQ(ErrorOfNode("LabelEncoder<keys_strings = [\"a\"], values_int64s = [1]>(x)"),
            "m.onnxtxt: node \"it\" (LabelEncoder): its keys or values are strings, or missing; fusec supports integers and floats");
  EXPECT_EQ(ErrorOfNode("Scaler<offset = [1.0, 2.0, 3.0], scale = [1.0]>(x)"),
            "m.onnxtxt: node \"it\" (Scaler): 3 numbers (offset) do not fit f32[n, 2]");
  EXPECT_EQ(ErrorOfNode("LinearRegressor<coefficients = [1.0, 2.0, 3.0]>(x)"),
            "m.onnxtxt: node \"it\" (LinearRegressor): 3 coefficients do not fit 1 rows of weights for x, f32[n, 2]");
  EXPECT_EQ(ErrorOfNode("SVMRegressor(x)"), "m.onnxtxt: 1 unsupported op: SVMRegressor (ai.onnx.ml 3): node \"it\"");
}

}  // namespace
}  // namespace fusec
