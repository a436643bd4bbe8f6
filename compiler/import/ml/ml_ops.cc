#include "compiler/import/ml/ml_ops.h"

#include <algorithm>
#include <map>

namespace fusec {

namespace {

const std::map<std::string_view, ImportFunction>& Table() {
  static const auto& table = *new std::map<std::string_view, ImportFunction>{
      {"ArrayFeatureExtractor", ImportArrayFeatureExtractor},
      {"Binarizer", ImportBinarizer},
      {"FeatureVectorizer", ImportFeatureVectorizer},
      {"Imputer", ImportImputer},
      {"LabelEncoder", ImportLabelEncoder},
      {"LinearClassifier", ImportLinearClassifier},
      {"LinearRegressor", ImportLinearRegressor},
      {"Normalizer", ImportNormalizer},
      {"OneHotEncoder", ImportOneHotEncoder},
      {"Scaler", ImportScaler},
      {"TreeEnsemble", ImportTreeEnsemble},
      {"TreeEnsembleClassifier", ImportTreeEnsembleClassifier},
      {"TreeEnsembleRegressor", ImportTreeEnsembleRegressor},
      {"ZipMap", ImportZipMap},
  };
  return table;
}

}  // namespace

ImportFunction FindMlImport(std::string_view op_type) {
  const auto found = Table().find(op_type);
  return found == Table().end() ? nullptr : found->second;
}

std::vector<std::string> MlOpNames() {
  std::vector<std::string> names;
  for (const auto& [name, import] : Table()) names.emplace_back(name);
  return names;
}

}  // namespace fusec
