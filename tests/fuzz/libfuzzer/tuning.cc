// Reads any text as tuning.json, mostly valid JSON with changed values. The result must be measurements that give the same text when they
// are written, read and written again, or an error of one line that names the file.
#include <nlohmann/json.hpp>
#include <random>

#include "compiler/driver/tune/tuning_file.h"
#include "tests/fuzz/libfuzzer/expect.h"

using namespace fusec;

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using Json = nlohmann::ordered_json;
using Random = std::mt19937_64;

void Collect(Json& json, std::vector<Json*>& all) {
  all.push_back(&json);
  if (!json.is_structured()) return;
  for (Json& part : json) Collect(part, all);
}

Json AnyValue(const std::vector<Json*>& all, Random& random) {
  static const Json kValues[] = {nullptr,   true,      false,      -1,         0,  1,       2,    0.5,           1e308,
                                 INT64_MAX, INT64_MIN, UINT64_MAX, 4294967296, "", "block", "\n", Json::array(), Json::object()};
  return random() % 2 == 0 ? kValues[random() % std::size(kValues)] : *all[random() % all.size()];
}

void Change(Json& json, Random& random) {
  std::vector<Json*> all;
  Collect(json, all);
  Json& place = *all[random() % all.size()];
  if (place.is_structured() && !place.empty() && random() % 2 == 0) {
    place.erase(std::next(place.begin(), static_cast<ptrdiff_t>(random() % place.size())));
  } else if (place.is_array() && random() % 2 == 0) {
    const Json value = AnyValue(all, random);
    place.push_back(value);
  } else {
    const Json value = AnyValue(all, random);
    place = value;
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  Random random(seed);
  Json json = Json::parse(data, data + size, nullptr, false);
  if (json.is_discarded() || random() % 8 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const size_t changes = 1 + random() % 3;
  for (size_t i = 0; i < changes; ++i) Change(json, random);
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(text.begin(), text.end(), data);
  return text.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto measured = ParseMeasured(text)) Expect(ParseMeasured(MeasuredText(*measured)).has_value(), "a size is read again");
  auto tuning = ParseTuning(text, "tuning.json");
  if (!tuning) {
    const std::string& message = tuning.error().message;
    Expect(message.starts_with("tuning.json: ") && message.find('\n') == message.npos, message);
    return 0;
  }
  const std::string written = TuningText(*tuning);
  const auto again = ParseTuning(written, "written.json");
  Expect(again.has_value(), again ? "" : again.error().message);
  Expect(TuningText(*again) == written, "is the same text when written and read");
  for (auto& [target, measured] : *tuning) {
    (void)measured.Winners();
    for (MeasuredRegion& region : measured.regions) TakeOneWinner(region);
  }
  return 0;
}
