#include "compiler/package/float8_products.h"

#include <cmath>

namespace fusec {

using Json = nlohmann::ordered_json;

Json Float8ProductsJson(ArrayRef<Float8Product> products) {
  Json list = Json::array();
  for (const Float8Product& product : products) {
    list.push_back({{"layer", product.layer},
                    {"result", product.result},
                    {"columns", product.columns},
                    {"terms", product.terms},
                    {"error", product.error},
                    {"in_fp8", product.kept.empty()}});
    if (!product.kept.empty()) list.back()["kept"] = product.kept;
  }
  return list;
}

Json Float8Json(double budget, ArrayRef<Float8Product> products) {
  return {{"budget", budget}, {"products", Float8ProductsJson(products)}};
}

double Float8BudgetOf(const Json& manifest) {
  return manifest.contains("fp8") ? manifest.at("fp8").at("budget").get<double>() : kFloat8Budget;
}

std::vector<Float8Product> Float8ProductsOf(const Json& manifest) {
  std::vector<Float8Product> products;
  if (!manifest.contains("fp8")) return products;
  for (const Json& product : manifest.at("fp8").at("products")) {
    const Json& error = product.at("error");
    products.push_back({product.at("layer"), product.at("result"), product.at("columns"),
                        product.at("terms"), error.is_null() ? NAN : error.get<double>(),
                        product.value("kept", "")});
  }
  return products;
}

}  // namespace fusec
