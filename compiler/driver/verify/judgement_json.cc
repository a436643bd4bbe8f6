#include "compiler/driver/verify/judgement_json.h"

#include <cmath>

namespace fusec {

using Json = nlohmann::ordered_json;

namespace {

Json NumberJson(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

}  // namespace

Json ComparisonJson(const Comparison& comparison) {
  Json json = {{"name", comparison.name},
               {"max_abs", NumberJson(comparison.max_abs)},
               {"max_rel", NumberJson(comparison.max_rel)},
               {"rel_l2", NumberJson(comparison.rel_l2)},
               {"tolerance", comparison.tolerance.relative_l2},
               {"pass", comparison.pass},
               {"unjudged", comparison.unjudged},
               {"reason", comparison.tolerance.reason}};
  if (!comparison.note.empty()) json["note"] = comparison.note;
  return json;
}

Json DimsJson(const DimValues& dims) { return dims.empty() ? Json::object() : Json(dims); }

Json VerificationJson(const Subject& subject, Json against, Json outputs, bool pass) {
  return {{"against", std::move(against)},
          {"outputs", std::move(outputs)},
          {"pass", pass},
          {"model", subject.program->manifest().model},
          {"device", subject.program->device().name()}};
}

Json JudgementJson(const RegionJudgement& judgement) {
  const Comparison& comparison = judgement.comparison;
  Json json = ComparisonJson(comparison);
  json["kernel"] = judgement.kernel;
  json["class"] = RegionClassText(judgement.region_class);
  json["worst"] = {{"index", comparison.worst_index},
                   {"found", NumberJson(comparison.worst_found)},
                   {"expected", NumberJson(comparison.worst_expected)}};
  json["dims"] = DimsJson(judgement.dims);
  return json;
}

}  // namespace fusec
