#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "compiler/support/adt.h"
#include "passes/float8_product.h"

namespace fusec {

// Convert the products that --matmul-precision fp8 considered to JSON, alone or with the error
// budget as the value of the key "fp8" of a manifest. An error that is NaN becomes null.
nlohmann::ordered_json Float8ProductsJson(ArrayRef<Float8Product> products);
nlohmann::ordered_json Float8Json(double budget, ArrayRef<Float8Product> products);
// Parse that key of a whole manifest; without the key they return the default budget and no
// products. They throw the exceptions of nlohmann::json if the value has another form.
double Float8BudgetOf(const nlohmann::ordered_json& manifest);
std::vector<Float8Product> Float8ProductsOf(const nlohmann::ordered_json& manifest);

}  // namespace fusec
