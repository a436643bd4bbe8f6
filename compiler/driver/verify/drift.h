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

// How far scores move where tables are stored in fewer bits (--table-storage): the answers of an
// artifact against those of the model with its own tables.
struct Drift {
  std::string output;
  int64_t elements = 0;
  double max_abs = 0, mean_abs = 0;
  int64_t misplaced = 0;  // elements of which only one is NaN or infinite; in no other number
  // The correlation of the two orders of the elements; nullopt where all of one are equal.
  std::optional<double> spearman;
  // Where the output has as many elements as there are labels.
  std::optional<double> model_auc, auc;
};

// Spearman's rank correlation: Pearson's of the ranks, equal values sharing the mean of theirs.
std::optional<double> RankCorrelation(ArrayRef<double> a, ArrayRef<double> b);
// The area under the ROC curve: how often a score of class 1 is above one of class 0, ties half.
// nullopt without both classes.
std::optional<double> AreaUnderCurve(ArrayRef<double> scores, const std::vector<bool>& labels);

// Collects the float outputs of all comparisons.
class DriftMeter {
 public:
  // Labels of 0 and 1 from a .npy file.
  Result<void> ReadLabels(const std::string& path);
  void Add(size_t output, const std::string& name, const TensorData& found,
           const ReferenceTensor& expected);
  // One for each output that was added. Fails if there are labels, but no output has as many
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

// Interprets the model with its own tables, and adds how far `outputs` of the program are from
// that.
Result<void> MeasureDrift(const Subject& subject, const Inputs& inputs,
                          ArrayRef<TensorData> outputs, DriftMeter& meter);

// Whether the drift is within `bound`, if there is one, and nothing became NaN or infinite.
bool Passes(const Drift& drift, std::optional<double> bound);
// The table that `fusec verify` prints, and its JSON.
std::string DriftText(ArrayRef<Drift> drifts, std::optional<double> bound);
nlohmann::ordered_json DriftJson(ArrayRef<Drift> drifts, std::optional<double> bound);

}  // namespace fusec
