#include "compiler/driver/verify/drift.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/driver/artifact/tensor_files.h"
#include "compiler/reference/interpreter.h"
#include "compiler/support/terminal.h"

namespace fusec {

namespace {

using Json = nlohmann::ordered_json;

// The ranks of the values, from 1 on; equal values have the mean of their ranks.
std::vector<double> RanksOf(ArrayRef<double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double mean = (static_cast<double>(begin + end) + 1) / 2;
    for (; begin < end; ++begin) ranks[order[begin]] = mean;
  }
  return ranks;
}

Drift DriftOf(const std::string& name, ArrayRef<double> found, ArrayRef<double> expected,
              std::vector<bool> labels) {
  Drift drift{.output = name, .elements = static_cast<int64_t>(found.size())};
  std::vector<double> a, b;
  std::vector<bool> label_of;
  for (size_t i = 0; i < found.size(); ++i) {
    if (!std::isfinite(found[i]) || !std::isfinite(expected[i])) {
      const bool same =
          found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i]));
      if (!same) ++drift.misplaced;
      continue;
    }
    a.push_back(found[i]);
    b.push_back(expected[i]);
    if (!labels.empty()) label_of.push_back(labels[i]);
    const double distance = std::abs(found[i] - expected[i]);
    drift.max_abs = std::max(drift.max_abs, distance);
    drift.mean_abs += distance;
  }
  drift.mean_abs /= static_cast<double>(std::max<size_t>(a.size(), 1));
  drift.spearman = RankCorrelation(a, b);
  if (!label_of.empty()) {
    drift.auc = AreaUnderCurve(a, label_of);
    drift.model_auc = AreaUnderCurve(b, label_of);
  }
  return drift;
}

// The text of a correlation or an AUC, with enough digits to show small distances from 1.
std::string CloseText(const std::optional<double>& number) {
  return number ? fmt::format("{:.6f}", *number) : "-";
}

Json OptionalJson(const std::optional<double>& number) {
  return number ? Json(*number) : Json(nullptr);
}

}  // namespace

std::optional<double> RankCorrelation(ArrayRef<double> a, ArrayRef<double> b) {
  const std::vector<double> x = RanksOf(a), y = RanksOf(b);
  const double mean = (static_cast<double>(x.size()) + 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  if (xx == 0 || yy == 0) return std::nullopt;
  return xy / std::sqrt(xx * yy);
}

// (sum of the ranks of class 1 - p (p + 1) / 2) / (p n), for p scores of class 1 and n of class 0:
// the U statistic of Mann and Whitney.
std::optional<double> AreaUnderCurve(ArrayRef<double> scores, const std::vector<bool>& labels) {
  const std::vector<double> ranks = RanksOf(scores);
  double sum = 0, ones = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (!labels[i]) continue;
    sum += ranks[i];
    ones += 1;
  }
  const double zeros = static_cast<double>(ranks.size()) - ones;
  if (ones == 0 || zeros == 0) return std::nullopt;
  return (sum - ones * (ones + 1) / 2) / (ones * zeros);
}

Result<void> DriftMeter::ReadLabels(const std::string& path) {
  FUSEC_ASSIGN(const TensorData labels, ReadNpy(path));
  labels_path_ = path;
  for (int64_t i = 0; i < labels.element_count(); ++i) {
    const double label = labels.GetDouble(i);
    if (label != 0 && label != 1) {
      return Fail(ErrorKind::kInput, "--labels " + path + ": element " + std::to_string(i) +
                                         " is " + FormatNumber(label) + ", expected 0 or 1");
    }
    labels_.push_back(label == 1);
  }
  const auto ones = std::count(labels_.begin(), labels_.end(), true);
  if (ones == 0 || ones == static_cast<int64_t>(labels_.size())) {
    return Fail(ErrorKind::kInput,
                "--labels " + path + ": an AUC needs labels of both classes, 0 and 1");
  }
  return {};
}

void DriftMeter::Add(size_t output, const std::string& name, const TensorData& found,
                     const ReferenceTensor& expected) {
  if (!IsFloat(found.dtype()) || found.element_count() != expected.element_count()) return;
  auto scores = std::find_if(scores_.begin(), scores_.end(),
                             [&](const Scores& known) { return known.output == output; });
  if (scores == scores_.end()) scores = scores_.insert(scores_.end(), {output, name, {}, {}});
  for (int64_t i = 0; i < found.element_count(); ++i) {
    scores->found.push_back(found.GetDouble(i));
    scores->expected.push_back(expected.reals[i]);
  }
}

Result<std::vector<Drift>> DriftMeter::Measure() const {
  std::vector<Drift> drifts;
  bool has_scores = labels_.empty();
  for (const Scores& scores : scores_) {
    const bool is_labelled = !labels_.empty() && scores.found.size() == labels_.size();
    has_scores |= is_labelled;
    drifts.push_back(DriftOf(scores.name, scores.found, scores.expected,
                             is_labelled ? labels_ : std::vector<bool>()));
  }
  if (has_scores) return drifts;
  return Fail(ErrorKind::kInput, "--labels " + labels_path_ + " has " +
                                     Plural(static_cast<int64_t>(labels_.size()), "label") +
                                     ", but no output of floats has as many elements");
}

Result<void> MeasureDrift(const Subject& subject, const Inputs& inputs,
                          ArrayRef<TensorData> outputs, DriftMeter& meter) {
  const Graph& graph = *subject.with_own_tables;
  FUSEC_ASSIGN(const auto reference_inputs, ReferenceInputs(subject, graph, inputs));
  FUSEC_ASSIGN(const auto expected, Interpret(graph, reference_inputs));
  for (size_t i = 0; i < outputs.size(); ++i)
    meter.Add(i, subject.program->manifest().outputs[i].name, outputs[i], expected[i]);
  return {};
}

bool Passes(const Drift& drift, std::optional<double> bound) {
  return drift.misplaced == 0 && (!bound || drift.max_abs <= *bound);
}

std::string DriftText(ArrayRef<Drift> drifts, std::optional<double> bound) {
  std::vector<std::vector<std::string>> rows = {{"output", "elements", "max abs", "mean abs",
                                                 "Spearman", "AUC of model", "AUC", "change",
                                                 "bound", ""}};
  for (const Drift& drift : drifts) {
    const auto change =
        drift.auc ? std::optional(*drift.auc - *drift.model_auc) : std::optional<double>();
    std::string verdict = bound ? "pass" : "";
    if (!Passes(drift, bound)) verdict = "FAIL";
    if (drift.misplaced > 0)
      verdict += ", " + Plural(drift.misplaced, "element") + " NaN or infinite on one side only";
    rows.push_back({drift.output, std::to_string(drift.elements), FormatNumber(drift.max_abs),
                    FormatNumber(drift.mean_abs), CloseText(drift.spearman),
                    CloseText(drift.model_auc), CloseText(drift.auc), CloseText(change),
                    bound ? FormatNumber(*bound) : "none", verdict});
  }
  return "\ndrift from the model with its own tables (--drift-bound X fails above X)\n\n" +
         FormatTable(rows, "lrrrrrrrrl");
}

Json DriftJson(ArrayRef<Drift> drifts, std::optional<double> bound) {
  Json outputs = Json::array();
  for (const Drift& drift : drifts) {
    outputs.push_back({{"name", drift.output},
                       {"elements", drift.elements},
                       {"max_abs", drift.max_abs},
                       {"mean_abs", drift.mean_abs},
                       {"misplaced", drift.misplaced},
                       {"spearman", OptionalJson(drift.spearman)},
                       {"model_auc", OptionalJson(drift.model_auc)},
                       {"auc", OptionalJson(drift.auc)},
                       {"pass", Passes(drift, bound)}});
  }
  return {{"bound", OptionalJson(bound)}, {"outputs", outputs}};
}

}  // namespace fusec
