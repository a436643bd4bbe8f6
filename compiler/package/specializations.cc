#include "compiler/package/specializations.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

namespace fusec {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kKinds[] = {"decided", "equal", "frozen"};  // ordered like the enum

}  // namespace

Json SpecializationsJson(ArrayRef<Specialization> specializations) {
  Json json = Json::array();
  for (const Specialization& one : specializations) {
    json.push_back({{"tensor", one.tensor},
                    {"kind", kKinds[static_cast<int>(one.kind)]},
                    {"pass", one.pass},
                    {"hash", one.hash}});
    if (!one.constant.empty()) json.back()["constant"] = one.constant;
  }
  return json;
}

std::vector<Specialization> SpecializationsOf(const Json& manifest) {
  std::vector<Specialization> specializations;
  for (const Json& json : manifest.value("specialized", Json::array())) {
    const auto* kind = std::find(std::begin(kKinds), std::end(kKinds), json.at("kind"));
    if (kind == std::end(kKinds)) continue;  // written by a later fusec
    specializations.push_back({static_cast<Specialization::Kind>(kind - kKinds), json.at("tensor"),
                               json.at("hash"), json.at("pass"), json.value("constant", "")});
  }
  return specializations;
}

}  // namespace fusec
