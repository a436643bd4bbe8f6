#pragma once

#include <nlohmann/json.hpp>

#include "compiler/driver/verify/region_check.h"

namespace fusec {

// Comparisons as --json prints them. NaN and infinite numbers, which JSON cannot express, are null.

// A comparison: name, max_abs, max_rel, rel_l2, tolerance, pass, unjudged, reason, and note if
// there is one.
nlohmann::ordered_json ComparisonJson(const Comparison& comparison);

// Sizes by symbol; {} if all dims are fixed.
nlohmann::ordered_json DimsJson(const DimValues& dims);

// The comparison of a kernel's result, with kernel, class, dims, and index and values of its worst
// element.
nlohmann::ordered_json JudgementJson(const RegionJudgement& judgement);

// The document of a verification: the judges `against`, the outputs, pass, model and device.
nlohmann::ordered_json VerificationJson(const Subject& subject, nlohmann::ordered_json against,
                                        nlohmann::ordered_json outputs, bool pass);

}  // namespace fusec
