#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "compiler/support/adt.h"
#include "passes/specialization.h"

namespace fusec {

// The manifest's "specialized".
nlohmann::ordered_json SpecializationsJson(ArrayRef<Specialization> specializations);
// Of a manifest; none if it says nothing. Throws the parser's exceptions.
std::vector<Specialization> SpecializationsOf(const nlohmann::ordered_json& manifest);

}  // namespace fusec
