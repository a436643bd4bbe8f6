#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/src/status.h"

namespace fusec::runtime {

// A value in a JSON document together with its path, so that every error names file and key. It is
// valid as long as the document exists.
class JsonValue {
 public:
  JsonValue(const void* node, std::string where) : node_(node), where_(std::move(where)) {}

  StatusOr<JsonValue> Field(std::string_view key) const;  // a missing key is an error
  bool Has(std::string_view key) const;                   // also false if this is not an object
  StatusOr<std::vector<JsonValue>> Items() const;         // of an array
  StatusOr<std::vector<std::pair<std::string, JsonValue>>> Members() const;  // of an object, by key
  StatusOr<std::string> AsText() const;
  StatusOr<int64_t> AsInt(int64_t low, int64_t high) const;  // inclusive bounds
  StatusOr<double> AsNumber() const;  // finite
  StatusOr<bool> AsBool() const;

  const std::string& where() const {
    return where_;
  }  // "model_fused/manifest.json: buffers[3].dtype"
  // An error about this value: `FILE: buffers[3].dtype is "f33", expected a dtype`.
  tl::unexpected<RuntimeError> Unexpected(std::string_view expected) const;

 private:
  const void* node_;
  std::string where_;
};

// A parsed document. Only this class and JsonValue use the JSON library.
class JsonDocument {
 public:
  static StatusOr<JsonDocument> Parse(std::string_view text, const std::string& file);
  JsonValue root() const { return JsonValue(node_.get(), file_ + ": "); }

 private:
  struct Delete {
    void operator()(const void* node) const;
  };
  std::unique_ptr<const void, Delete> node_;
  std::string file_;
};

// Read a field of an object.
StatusOr<std::string> ReadText(const JsonValue& object, std::string_view key);
StatusOr<int64_t> ReadInt(const JsonValue& object, std::string_view key, int64_t low, int64_t high);
StatusOr<bool> ReadBool(const JsonValue& object, std::string_view key);
// Reads a text field and returns its position in a list.
StatusOr<int> ReadPosition(const JsonValue& object, std::string_view key,
                           std::initializer_list<std::string_view> names);
// The same as an enum whose values are the positions in the list.
template <class Enum>
StatusOr<Enum> ReadChoice(const JsonValue& object, std::string_view key,
                          std::initializer_list<std::string_view> names) {
  FUSEC_RT_ASSIGN(const int position, ReadPosition(object, key, names));
  return static_cast<Enum>(position);
}
// Reads a list: the Python expression [read(item) for item in object[key]].
template <class Read>
auto ReadList(const JsonValue& object, std::string_view key, Read read)
    -> StatusOr<std::vector<std::decay_t<decltype(*read(object))>>> {
  std::vector<std::decay_t<decltype(*read(object))>> list;
  FUSEC_RT_ASSIGN(const auto field, object.Field(key));
  FUSEC_RT_ASSIGN(const auto items, field.Items());
  for (const JsonValue& item : items) {
    FUSEC_RT_ASSIGN(auto value, read(item));
    list.push_back(std::move(value));
  }
  return list;
}

}  // namespace fusec::runtime
