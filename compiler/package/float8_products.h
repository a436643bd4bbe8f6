#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "compiler/support/adt.h"
#include "passes/float8_product.h"

namespace fusec {

// The products that --matmul-precision fp8 is about, and the key "fp8" of a manifest: the budget of
// their errors, and them. An error that is not a number is null.
nlohmann::ordered_json Float8ProductsJson(ArrayRef<Float8Product> products);
nlohmann::ordered_json Float8Json(double budget, ArrayRef<Float8Product> products);
// Those of a whole manifest; nothing, or the default, if it has no such key. Throws as
// nlohmann::json does where the key has another form.
double Float8BudgetOf(const nlohmann::ordered_json& manifest);
std::vector<Float8Product> Float8ProductsOf(const nlohmann::ordered_json& manifest);

}  // namespace fusec
