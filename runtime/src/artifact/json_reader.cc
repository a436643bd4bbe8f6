#include "runtime/src/artifact/json_reader.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace fusec::runtime {
namespace {

using Json = nlohmann::json;

const Json& Node(const void* node) { return *static_cast<const Json*>(node); }

std::string Join(const std::string& where, std::string_view key) {
  return where + (where.ends_with(": ") ? "" : ".") + std::string(key);
}

// Describes a value in a form that is short enough for a one-line message.
std::string Describe(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 60) + "...";
  return text;
}

}  // namespace

tl::unexpected<RuntimeError> JsonValue::Unexpected(std::string_view expected) const {
  const std::string place = where_.ends_with(": ") ? where_ + "the document" : where_;
  return Fail(FUSEC_BAD_ARTIFACT, place, " is ", Describe(Node(node_)), ", expected ", expected);
}

StatusOr<JsonValue> JsonValue::Field(std::string_view key) const {
  const Json& json = Node(node_);
  if (!json.is_object()) return Unexpected("an object");
  const auto found = json.find(key);
  if (found == json.end()) return Fail(FUSEC_BAD_ARTIFACT, Join(where_, key), " is missing");
  return JsonValue(&*found, Join(where_, key));
}

bool JsonValue::Has(std::string_view key) const { return Node(node_).contains(key); }

StatusOr<std::vector<JsonValue>> JsonValue::Items() const {
  const Json& json = Node(node_);
  if (!json.is_array()) return Unexpected("a list");
  std::vector<JsonValue> items;
  for (size_t i = 0; i < json.size(); ++i) items.emplace_back(&json[i], Text(where_, "[", i, "]"));
  return items;
}

StatusOr<std::vector<std::pair<std::string, JsonValue>>> JsonValue::Members() const {
  const Json& json = Node(node_);
  if (!json.is_object()) return Unexpected("an object");
  std::vector<std::pair<std::string, JsonValue>> members;
  for (const auto& [key, value] : json.items()) {
    members.emplace_back(key, JsonValue(&value, Join(where_, key)));
  }
  return members;
}

StatusOr<std::string> JsonValue::AsText() const {
  const Json& json = Node(node_);
  if (!json.is_string()) return Unexpected("a text");
  const auto& text = json.get_ref<const std::string&>();
  // Names are passed as C strings: in the C interface, to dlsym, to the file system.
  if (text.find('\0') != std::string::npos) return Unexpected("a text without a zero character");
  return text;
}

StatusOr<int64_t> JsonValue::AsInt(int64_t low, int64_t high) const {
  const Json& json = Node(node_);
  const std::string expected = Text("an integer in ", low, "..", high);
  if (!json.is_number_integer()) return Unexpected(expected);
  // The library stores positive numbers as unsigned, which may exceed int64.
  if (json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
    return Unexpected(expected);
  }
  const int64_t value = json.get<int64_t>();
  if (value < low || value > high) return Unexpected(expected);
  return value;
}

StatusOr<double> JsonValue::AsNumber() const {
  const Json& json = Node(node_);
  if (!json.is_number() || !std::isfinite(json.get<double>())) return Unexpected("a number");
  return json.get<double>();
}

StatusOr<bool> JsonValue::AsBool() const {
  const Json& json = Node(node_);
  if (!json.is_boolean()) return Unexpected("true or false");
  return json.get<bool>();
}

StatusOr<JsonDocument> JsonDocument::Parse(std::string_view text, const std::string& file) {
  JsonDocument document;
  document.file_ = file;
  auto json = std::make_unique<Json>(Json::parse(text, nullptr, /*allow_exceptions=*/false));
  if (json->is_discarded()) return Fail(FUSEC_BAD_ARTIFACT, file, ": is not valid JSON");
  document.node_.reset(json.release());
  return document;
}

StatusOr<std::string> ReadText(const JsonValue& object, std::string_view key) {
  FUSEC_RT_ASSIGN(const auto field, object.Field(key));
  return field.AsText();
}

StatusOr<int64_t> ReadInt(const JsonValue& object, std::string_view key, int64_t low,
                          int64_t high) {
  FUSEC_RT_ASSIGN(const auto field, object.Field(key));
  return field.AsInt(low, high);
}

StatusOr<bool> ReadBool(const JsonValue& object, std::string_view key) {
  FUSEC_RT_ASSIGN(const auto field, object.Field(key));
  return field.AsBool();
}

StatusOr<int> ReadPosition(const JsonValue& object, std::string_view key,
                           std::initializer_list<std::string_view> names) {
  FUSEC_RT_ASSIGN(const auto field, object.Field(key));
  FUSEC_RT_ASSIGN(const auto text, field.AsText());
  int position = 0;
  std::string expected = "one of";
  for (const std::string_view name : names) {
    if (name == text) return position;
    ++position;
    (expected += ' ') += name;
  }
  return field.Unexpected(expected);
}

void JsonDocument::Delete::operator()(const void* node) const {
  delete static_cast<const Json*>(node);
}

}  // namespace fusec::runtime
