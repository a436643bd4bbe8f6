#pragma once

#include <string_view>
#include <vector>

#include "compiler/import/import_context.h"
#include "compiler/ir/op_def.h"
#include "compiler/ops/formula.h"

namespace fusec {

// The domain of ONNX's ops for classical machine learning: trees, linear models, and the
// preprocessing of features, as exporters of scikit-learn, XGBoost and LightGBM write them.
inline constexpr std::string_view kMlDomain = "ai.onnx.ml";

// How an op of that domain becomes IR ops; null if fusec does not support it.
ImportFunction FindMlImport(std::string_view op_type);
// The names of the supported ops, sorted.
std::vector<std::string> MlOpNames();

// trees.cc
Result<void> ImportTreeEnsemble(ImportContext& context);
Result<void> ImportTreeEnsembleClassifier(ImportContext& context);
Result<void> ImportTreeEnsembleRegressor(ImportContext& context);
// linear_models.cc
Result<void> ImportLinearClassifier(ImportContext& context);
Result<void> ImportLinearRegressor(ImportContext& context);
// features.cc
Result<void> ImportArrayFeatureExtractor(ImportContext& context);
Result<void> ImportBinarizer(ImportContext& context);
Result<void> ImportFeatureVectorizer(ImportContext& context);
Result<void> ImportImputer(ImportContext& context);
Result<void> ImportLabelEncoder(ImportContext& context);
Result<void> ImportNormalizer(ImportContext& context);
Result<void> ImportOneHotEncoder(ImportContext& context);
Result<void> ImportScaler(ImportContext& context);
Result<void> ImportZipMap(ImportContext& context);

// scores.cc, what the models share:

// Checks that the features are [rows, features] or, as one row, [features], and returns them as
// [rows, features] in f32, or in f64 if they are f64.
Result<Value*> FeatureRows(const ImportContext& context, Formula& f);
// Applies `transform` (NONE, LOGISTIC, SOFTMAX or SOFTMAX_ZERO) to the rows of scores [rows,
// classes].
Result<Value*> Transformed(const ImportContext& context, Formula& f, Value* scores,
                           const std::string& transform);
// Sets the outputs of a classifier: a label per row and, for the scores [rows, classes], their
// transformed values. `chosen` holds the number of each row's class, i64, which also stands for a
// label that is a string.
Result<void> FinishClassifier(ImportContext& context, Formula& f, Value* chosen, Value* scores,
                              const std::string& labels);
// The same for the label of the greatest score, whose scores are then transformed as the node says.
Result<void> FinishByGreatest(ImportContext& context, Formula& f, Value* scores,
                              const std::string& labels);

}  // namespace fusec
