#include "compiler/driver/tune/tuning_file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "compiler/support/json_number.h"
#include "compiler/support/read_file.h"
#include "runtime/src/artifact/hash.h"

namespace fusec {

namespace {

using Json = nlohmann::ordered_json;
using Team = LaunchShape::Team;

constexpr int kVersion = 2;  // version of the format of tuning.json

constexpr std::pair<Team, const char*> kTeams[] = {{Team::kPlanned, "planned"},
                                                   {Team::kThread, "thread"},
                                                   {Team::kWarp, "warp"},
                                                   {Team::kBlock, "block"}};

template <class Names, class Word>
std::string NameOf(const Names& names, Word word) {
  for (const auto& [value, name] : names) {
    if (value == word) return name;
  }
  return "";
}

// The value whose name is `json`. Throws Json::exception for an unknown name, as for every other
// error in a file.
template <class Names>
auto WordOf(const Names& names, const Json& json) {
  const std::string text = json.get<std::string>();
  for (const auto& [value, name] : names) {
    if (text == name) return value;
  }
  throw Json::other_error::create(500, "there is no " + json.dump(), &json);
}

Json ChoiceJson(const KernelChoice& choice) {
  Json json = {{"product", ScheduleJson(choice.product)}};
  const LaunchShape& shape = choice.shape;
  if (shape.block_size > 0) json["block_size"] = shape.block_size;
  if (shape.lanes > 0) json["lanes"] = shape.lanes;
  if (shape.rows > 0) json["rows"] = shape.rows;
  if (shape.chunk > 0) json["chunk"] = shape.chunk;
  if (shape.cluster_blocks > 0) json["cluster_blocks"] = shape.cluster_blocks;
  if (shape.key_warps > 0) json["key_warps"] = shape.key_warps;
  if (shape.team != Team::kPlanned) json["team"] = NameOf(kTeams, shape.team);
  return json;
}

KernelChoice ChoiceOf(const Json& json) {
  KernelChoice choice;
  choice.product = ScheduleOf(json.at("product"));
  choice.shape.block_size = IntegerOr(json, "block_size", 0);
  choice.shape.lanes = IntegerOr(json, "lanes", int64_t{0});
  choice.shape.rows = IntegerOr(json, "rows", int64_t{0});
  choice.shape.chunk = IntegerOr(json, "chunk", int64_t{0});
  choice.shape.cluster_blocks = IntegerOr(json, "cluster_blocks", 0);
  choice.shape.key_warps = IntegerOr(json, "key_warps", 0);
  if (json.contains("team")) choice.shape.team = WordOf(kTeams, json["team"]);
  return choice;
}

Json SizeJson(const MeasuredSize& measured) {
  Json kernels = Json::array();
  for (const MeasuredKernel& kernel : measured.kernels) {
    kernels.push_back({{"choice", ChoiceJson(kernel.choice)}, {"us", kernel.microseconds}});
    if (!kernel.problem.empty()) kernels.back()["problem"] = kernel.problem;
  }
  return {{"dims", measured.dims.empty() ? Json::object() : Json(measured.dims)},
          {"size", measured.size},
          {"bytes", measured.bytes},
          {"flops", measured.flops},
          {"winner", measured.winner},
          {"kernels", kernels}};
}

MeasuredSize SizeOf(const Json& json) {
  MeasuredSize measured;
  measured.dims = IntegersOf<DimValues>(json.at("dims"));
  measured.size = IntegerOf<int64_t>(json.at("size"));
  measured.bytes = IntegerOf<int64_t>(json.at("bytes"));
  measured.flops = IntegerOf<int64_t>(json.at("flops"));
  measured.winner = IntegerOf<size_t>(json.at("winner"));
  for (const Json& kernel : json.at("kernels")) {
    measured.kernels.push_back(
        {ChoiceOf(kernel.at("choice")), kernel.at("us"), kernel.value("problem", "")});
  }
  if (measured.winner >= measured.kernels.size())
    throw Json::other_error::create(500, "the winner is none of the kernels", &json);
  return measured;
}

MeasuredRegion RegionOf(const Json& json) {
  const auto region_class = FindRegionClass(json.at("class").get<std::string>());
  if (!region_class) throw Json::other_error::create(500, "its class is none of a region", &json);
  MeasuredRegion region{IntegerOf<size_t>(json.at("region")),
                        json.at("kernel"),
                        *region_class,
                        json.at("complete"),
                        {}};
  for (const Json& size : json.at("sizes")) region.sizes.push_back(SizeOf(size));
  return region;
}

// The measurement of a choice; null if it was not timed.
const MeasuredKernel* TimedKernel(const MeasuredSize& size, const KernelChoice& choice) {
  const auto found = std::find_if(size.kernels.begin(), size.kernels.end(),
                                  [&](const MeasuredKernel& k) { return k.choice == choice; });
  return found != size.kernels.end() && found->problem.empty() ? &*found : nullptr;
}

// The geometric mean of a choice's times relative to the planned kernel's; nullopt if it was not
// timed at all sizes.
std::optional<double> RelativeTime(ArrayRef<MeasuredSize> sizes, const KernelChoice& choice) {
  double logarithms = 0;
  for (const MeasuredSize& size : sizes) {
    const MeasuredKernel* kernel = TimedKernel(size, choice);
    if (kernel == nullptr) return std::nullopt;
    logarithms += std::log(kernel->microseconds / size.kernels[0].microseconds);
  }
  return std::exp(logarithms / static_cast<double>(sizes.size()));
}

}  // namespace

void TakeOneWinner(MeasuredRegion& region) {
  if (region.sizes.empty()) return;
  KernelChoice best = region.sizes[0].kernels[0].choice;
  double best_time = kAhead;
  for (const MeasuredKernel& kernel : region.sizes[0].kernels) {
    const auto time = RelativeTime(region.sizes, kernel.choice);
    if (!time || *time >= best_time) continue;
    best = kernel.choice;
    best_time = *time;
  }
  for (MeasuredSize& size : region.sizes) {
    const auto found =
        std::find_if(size.kernels.begin(), size.kernels.end(),
                     [&](const MeasuredKernel& kernel) { return kernel.choice == best; });
    size.winner = found - size.kernels.begin();
  }
}

Tuning TargetTuning::Winners() const {
  Tuning tuning;
  for (const MeasuredRegion& region : regions) {
    if (!region.complete) continue;
    std::vector<Winner>& winners = tuning[region.number];
    for (const MeasuredSize& size : region.sizes) {
      Winner winner{size.size, std::nullopt};
      if (size.winner > 0) winner.choice = size.kernels[size.winner].choice;
      winners.push_back(std::move(winner));
    }
    std::stable_sort(winners.begin(), winners.end(),
                     [](const Winner& a, const Winner& b) { return a.size < b.size; });
  }
  return tuning;
}

std::string TuningText(const TuningFile& file) {
  Json targets = Json::object();
  for (const auto& [name, tuning] : file) {
    Json regions = Json::array();
    for (const MeasuredRegion& region : tuning.regions) {
      Json sizes = Json::array();
      for (const MeasuredSize& size : region.sizes) sizes.push_back(SizeJson(size));
      regions.push_back({{"region", region.number},
                         {"kernel", region.kernel},
                         {"class", RegionClassText(region.region_class)},
                         {"complete", region.complete},
                         {"sizes", sizes}});
    }
    targets[name] = {{"device", tuning.device}, {"regions", regions}};
  }
  const Json json = {{"format", "fusec-tuning"}, {"version", kVersion}, {"targets", targets}};
  return json.dump(1) + "\n";
}

Result<TuningFile> ParseTuning(const std::string& text, const std::string& path) {
  try {
    const Json json = Json::parse(text);
    if (json.at("format") != "fusec-tuning")
      return Fail(ErrorKind::kArtifact, path + ": is not a file of format fusec-tuning");
    if (json.at("version") != kVersion) {
      return Fail(ErrorKind::kArtifact, path + ": version is " + json["version"].dump() +
                                            ", expected " + std::to_string(kVersion) +
                                            "; compile and tune the model with this release");
    }
    TuningFile file;
    for (const auto& [name, target] : json.at("targets").items()) {
      TargetTuning& tuning = file[name];
      tuning.device = target.at("device");
      for (const Json& region : target.at("regions")) tuning.regions.push_back(RegionOf(region));
    }
    return file;
  } catch (const Json::exception& error) {
    return Fail(ErrorKind::kArtifact, path + ": " + error.what());
  }
}

Result<TuningFile> ReadTuning(const std::string& artifact) {
  const std::string path = artifact + "/" + kTuningFile;
  FUSEC_ASSIGN(const std::string manifest,
               ReadWholeFile(artifact + "/manifest.json", ErrorKind::kArtifact));
  const Json json = Json::parse(manifest, nullptr, false);
  const auto expected =
      json.is_object() ? json.value(Json::json_pointer("/files/tuning.json"), Json()) : Json();
  if (!expected.is_string()) return TuningFile();
  FUSEC_ASSIGN(const std::string text, ReadWholeFile(path, ErrorKind::kArtifact));
  const std::string hash = runtime::Hash128(std::as_bytes(std::span(text)));
  if (hash != expected.get<std::string>()) {
    return Fail(ErrorKind::kArtifact, path + ": was altered: its hash is " + hash + ", expected " +
                                          expected.get<std::string>());
  }
  return ParseTuning(text, path);
}

std::string MeasuredText(const MeasuredSize& measured) { return SizeJson(measured).dump(); }

std::optional<MeasuredSize> ParseMeasured(const std::string& text) {
  try {
    return SizeOf(Json::parse(text));
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace fusec
