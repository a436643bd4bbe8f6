#include <nlohmann/json.hpp>
#include <type_traits>

#include "compiler/plan/matmul/schedule.h"
#include "compiler/support/json_number.h"

namespace fusec {

namespace {

using Json = nlohmann::ordered_json;

// Writes fields. A field that has its default value, `unsaid`, is omitted.
struct FieldWriter {
  Json& json;

  template <class Value>
  void operator()(const char* name, const Value& value) const {
    json[name] = value;
  }
  template <class Value>
  void operator()(const char* name, const Value& value, const Value& unsaid) const {
    if (value != unsaid) json[name] = value;
  }
};

template <class Value>
Value ValueOf(const Json& json) {
  if constexpr (std::is_integral_v<Value> && !std::is_same_v<Value, bool>)
    return IntegerOf<Value>(json);
  else
    return json.get<Value>();
}

struct FieldReader {
  const Json& json;

  template <class Value>
  void operator()(const char* name, Value& value) const {
    value = ValueOf<Value>(json.at(name));
  }
  template <class Value>
  void operator()(const char* name, Value& value, const Value& unsaid) const {
    value = json.contains(name) ? ValueOf<Value>(json[name]) : unsaid;
  }
};

// Reads `schedule` as the alternative of this kind; searches from alternative number kFrom on.
// False if there is no such kind.
template <size_t kFrom = 0>
bool ReadKind(const std::string& kind, const Json& json, MatMulSchedule& schedule) {
  if constexpr (kFrom < std::variant_size_v<MatMulSchedule>) {
    using Way = std::variant_alternative_t<kFrom, MatMulSchedule>;
    if (kind != Way::kKind) return ReadKind<kFrom + 1>(kind, json, schedule);
    Way way;
    Way::EachField(way, FieldReader{json});
    if (const std::string problem = way.Problem(); !problem.empty())
      throw Json::other_error::create(500, problem, &json);
    schedule = way;
    return true;
  }
  return false;
}

}  // namespace

Json ScheduleJson(const MatMulSchedule& schedule) {
  Json json;
  std::visit(
      [&](const auto& way) {
        json["kind"] = way.kKind;
        way.EachField(way, FieldWriter{json});
      },
      schedule);
  return json;
}

MatMulSchedule ScheduleOf(const Json& json) {
  const std::string kind = json.at("kind").get<std::string>();
  MatMulSchedule schedule;
  if (!ReadKind(kind, json, schedule))
    throw Json::other_error::create(500, "there is no " + json["kind"].dump(), &json);
  return schedule;
}

}  // namespace fusec
