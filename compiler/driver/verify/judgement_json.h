#pragma once

#include <nlohmann/json.hpp>

#include "compiler/driver/verify/region_check.h"

namespace fusec {

// Comparisons as --json prints them. Where a number is NaN or infinite, which JSON has no word for,
// stands null.

// name, max_abs, max_rel, rel_l2, tolerance, pass, reason, and the note where there is one.
nlohmann::ordered_json ComparisonJson(const Comparison& comparison);

// {} without symbolic dims.
nlohmann::ordered_json DimsJson(const DimValues& dims);

// The same of a kernel's result, with kernel, class, dims, and index and values of the worst
// element.
nlohmann::ordered_json JudgementJson(const RegionJudgement& judgement);

// What a comparison of a subject with the judges `against` comes to.
nlohmann::ordered_json VerificationJson(const Subject& subject, nlohmann::ordered_json against,
                                        nlohmann::ordered_json outputs, bool pass);

}  // namespace fusec
