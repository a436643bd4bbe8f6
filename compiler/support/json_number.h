#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace fusec {

// A whole number of a file. nlohmann's get() takes any number and casts it, so that 1e308 is
// undefined and 2^32 is 0. Throws an exception of `Json` where it is none, or has no place in
// `Integer`.
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

// The same of a key that may be missing.
template <class Integer, class Json>
Integer IntegerOr(const Json& json, const char* key, Integer unsaid) {
  return json.contains(key) ? IntegerOf<Integer>(json[key]) : unsaid;
}

// Sizes of symbols: {"batch": 64}. `Map` has names and whole numbers.
template <class Map, class Json>
Map IntegersOf(const Json& json) {
  Map map;
  for (const auto& [name, value] : json.template get_ref<const typename Json::object_t&>())
    map[name] = IntegerOf<typename Map::mapped_type>(value);
  return map;
}

}  // namespace fusec
