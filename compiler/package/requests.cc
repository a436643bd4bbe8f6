#include "compiler/package/requests.h"

namespace fusec {

using Json = nlohmann::ordered_json;

Json RequestsJson(const ArtifactRequests& requests) {
  Json per_request = Json::array(), seams = Json::array(), per_item = Json::array();
  for (const RequestSplit::Op& op : requests.split.per_request)
    per_request.push_back({{"value", op.value}, {"op", op.op}});
  for (const RequestSplit::Seam& seam : requests.split.seams) {
    seams.push_back({{"value", seam.value},
                     {"columns_of_request", seam.columns_of_request},
                     {"columns_of_items", seam.columns_of_items}});
  }
  for (const RequestSplit::Stop& stop : requests.split.stops) {
    per_item.push_back({{"value", stop.reader.value},
                        {"op", stop.reader.op},
                        {"reads", stop.value},
                        {"reason", stop.reason}});
  }
  Json json = {{"inputs", requests.per_request.inputs}};
  if (requests.per_request.is_mapped) json["map"] = kRequestMap;
  json["per_request"] = std::move(per_request);
  json["split_products"] = std::move(seams);
  json["per_item"] = std::move(per_item);
  return json;
}

std::optional<ArtifactRequests> RequestsOf(const Json& manifest) {
  const auto found = manifest.find("requests");
  if (found == manifest.end()) return std::nullopt;
  ArtifactRequests requests;
  requests.per_request = {found->at("inputs"), found->contains("map")};
  for (const Json& op : found->at("per_request"))
    requests.split.per_request.push_back({op.at("value"), op.at("op")});
  for (const Json& seam : found->at("split_products")) {
    requests.split.seams.push_back(
        {seam.at("value"), seam.at("columns_of_request"), seam.at("columns_of_items")});
  }
  for (const Json& stop : found->at("per_item")) {
    requests.split.stops.push_back(
        {stop.at("reads"), {stop.at("value"), stop.at("op")}, stop.at("reason")});
  }
  return requests;
}

}  // namespace fusec
