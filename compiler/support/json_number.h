#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace fusec {

// A whole number from a JSON file. nlohmann's get() casts any number, so that 1e308 is undefined
// and 2^32 may become 0. This throws an exception of `Json` if the value is not a whole number or
// does not fit in `Integer`.
template <class Integer, class Json>
Integer IntegerOf(const Json& json) {
  const bool fits =
      json.is_number_unsigned()
          ? std::in_range<Integer>(json.template get<uint64_t>())
          : json.is_number_integer() && std::in_range<Integer>(json.template get<int64_t>());
  if (fits) return json.template get<Integer>();
  const std::string what = std::string(json.is_number() ? json.dump() : json.type_name()) +
                           ", expected a whole number of " + std::to_string(8 * sizeof(Integer)) +
                           " bits";
  throw Json::other_error::create(500, what, &json);
}

// The same for a key that may be missing.
template <class Integer, class Json>
Integer IntegerOr(const Json& json, const char* key, Integer unsaid) {
  return json.contains(key) ? IntegerOf<Integer>(json[key]) : unsaid;
}

// An object of whole numbers, such as sizes of symbols: {"batch": 64}. `Map` maps names to
// integers.
template <class Map, class Json>
Map IntegersOf(const Json& json) {
  Map map;
  for (const auto& [name, value] : json.template get_ref<const typename Json::object_t&>())
    map[name] = IntegerOf<typename Map::mapped_type>(value);
  return map;
}

}  // namespace fusec
