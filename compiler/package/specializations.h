#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "compiler/support/adt.h"
#include "passes/specialization.h"

namespace fusec {

// The value of the key "specialized" of a manifest.
nlohmann::ordered_json SpecializationsJson(ArrayRef<Specialization> specializations);
// Parses that key of a manifest; empty if the manifest does not have it. Throws the exceptions of
// nlohmann::json if the value has another form.
std::vector<Specialization> SpecializationsOf(const nlohmann::ordered_json& manifest);

}  // namespace fusec
