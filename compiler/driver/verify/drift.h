#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "compiler/driver/verify/verify_subject.h"
#include "compiler/ir/tensor.h"
#include "compiler/reference/reference_context.h"
#include "compiler/support/adt.h"
#include "compiler/support/result.h"

namespace fusec {

// The drift of an output whose tables are stored in fewer bits (--table-storage): how far the
// artifact's answers are from those of the model with its own tables.
struct Drift {
  std::string output;
  int64_t elements = 0;
  double max_abs = 0, mean_abs = 0;
  int64_t misplaced = 0;  // elements that are NaN or infinite on one side only; left out of all else
  // Spearman's rank correlation of the two sides; nullopt if all elements of a side are equal.
  std::optional<double> spearman;
  // The AUC of both sides, if the output has as many elements as there are labels.
  std::optional<double> model_auc, auc;
};

// Spearman's rank correlation: Pearson's correlation of the ranks, where equal values have the mean
// of their ranks. nullopt if all values of a or of b are equal.
std::optional<double> RankCorrelation(ArrayRef<double> a, ArrayRef<double> b);
// The area under the ROC curve: the probability that a score of class 1 is above one of class 0,
// where ties count half. nullopt if a class has no score.
std::optional<double> AreaUnderCurve(ArrayRef<double> scores, const std::vector<bool>& labels);

// Collects the float outputs of all comparisons.
class DriftMeter {
 public:
  // Reads labels, 0 or 1, from a .npy file.
  Result<void> ReadLabels(const std::string& path);
  void Add(size_t output, const std::string& name, const TensorData& found,
           const ReferenceTensor& expected);
  // The drift of each output that was added. Fails if there are labels but no output has as many
  // elements.
  Result<std::vector<Drift>> Measure() const;

 private:
  struct Scores {
    size_t output;
    std::string name;
    std::vector<double> found, expected;
  };
  std::vector<Scores> scores_;
  std::string labels_path_;
  std::vector<bool> labels_;
};

// Interprets the model with its own tables, and adds the results and the program's `outputs` to the
// meter.
Result<void> MeasureDrift(const Subject& subject, const Inputs& inputs,
                          ArrayRef<TensorData> outputs, DriftMeter& meter);

// Whether the drift is within `bound`, if there is one, and nothing became NaN or infinite.
bool Passes(const Drift& drift, std::optional<double> bound);
// The table that `fusec verify` prints, and its JSON.
std::string DriftText(ArrayRef<Drift> drifts, std::optional<double> bound);
nlohmann::ordered_json DriftJson(ArrayRef<Drift> drifts, std::optional<double> bound);

}  // namespace fusec
