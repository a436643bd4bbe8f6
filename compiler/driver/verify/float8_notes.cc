#include "compiler/driver/verify/float8_notes.h"

#include <nlohmann/json.hpp>

#include "compiler/driver/artifact/manifest_json.h"
#include "compiler/package/float8_products.h"
#include "compiler/support/terminal.h"

namespace fusec {

Result<std::vector<std::string>> Float8Notes(const Subject& subject) {
  std::vector<std::string> notes, rounded;
  if (subject.program->device().target().name == "cpu") return notes;
  FUSEC_ASSIGN(const auto manifest, ReadManifest(subject.artifact));
  for (const Float8Product& product : Float8ProductsOf(manifest)) {
    if (product.kept.empty())
      rounded.push_back(product.layer);
    else
      notes.push_back("product " + product.layer + " is not in fp8: " + product.kept +
                      " (relative L2 error " + FormatNumber(product.error) + ")");
  }
  if (!rounded.empty()) notes.push_back("products in fp8: " + Join(rounded, ", "));
  return notes;
}

}  // namespace fusec
