#include "compiler/driver/build/model_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>

#include "compiler/driver/artifact/tensor_files.h"
#include "compiler/driver/build/compile.h"
#include "compiler/support/nearest_name.h"
#include "compiler/support/terminal.h"

namespace fusec {

namespace {

Result<void> CheckFusion(const std::string& name) {
  const PassInfo* pass = FindPass(name);
  if (pass && pass->optional) return {};
  std::vector<std::string> known;
  for (const PassInfo& other : AllPasses()) {
    if (other.optional) known.push_back(other.name);
  }
  return Fail(ErrorKind::kUsage, "no fusion is called \"" + name + "\"" + DidYouMean(name, known) +
                                     "; there are " + Join(known, ", "));
}

Result<TableStorage> ParseTableStorage(const std::string& flag) {
  const size_t equals = flag.rfind('=');
  const auto known = Join(RowStorageNames(), ", ");
  if (equals == std::string::npos || equals == 0) {
    return Fail(ErrorKind::kUsage, "--table-storage " + flag +
                                       ": expected PATTERN=STORAGE, with a storage of " + known);
  }
  const std::string storage = flag.substr(equals + 1);
  if (const auto parsed = ParseRowStorage(storage))
    return TableStorage{flag.substr(0, equals), *parsed};
  return Fail(ErrorKind::kUsage, "--table-storage " + flag + ": no storage is called \"" + storage +
                                     "\"" + DidYouMean(storage, RowStorageNames()) +
                                     "; there are " + known);
}

// Parses "512MB", where units are powers of 1024, or "10%".
Result<TableCache> ParseTableCache(const std::string& flag) {
  const std::map<std::string, double> units = {{"", 1},        {"B", 1},       {"KB", 0x1p10},
                                               {"MB", 0x1p20}, {"GB", 0x1p30}, {"TB", 0x1p40}};
  double number = 0;
  const char* const end = flag.data() + flag.size();
  const auto [read, error] = std::from_chars(flag.data(), end, number, std::chars_format::fixed);
  const std::string unit(error == std::errc() ? read : end, end);
  const auto factor = units.find(unit);
  const bool is_share = unit == "%";
  const bool is_size = factor != units.end() && number * factor->second < 0x1p62;
  if (error == std::errc() && number > 0 && is_share && number <= 100) return TableCache{0, number};
  if (error == std::errc() && number > 0 && is_size)
    return TableCache{static_cast<int64_t>(number * factor->second), 0};
  return Fail(ErrorKind::kUsage,
              "--table-cache " + flag +
                  ": expected a size as in 512MB (B, KB, MB, GB or TB) or a share of the tables' "
                  "rows as in 10%");
}

// Parses "slots=64,rank=16", in either order.
Result<AdapterSlots> ParseAdapters(const std::string& flag) {
  constexpr int64_t kMostSlots = 65536, kMostRank = 4096;
  AdapterSlots adapters;
  const auto bad = [&](const std::string& why) {
    return Fail(ErrorKind::kUsage, "--adapters " + flag + ": " + why +
                                       ", expected slots=N,rank=N, as in slots=64,rank=16");
  };
  std::stringstream parts(flag);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t equals = part.find('=');
    const std::string key = part.substr(0, equals);
    if (equals == std::string::npos || (key != "slots" && key != "rank"))
      return bad("\"" + part + "\" is neither slots=N nor rank=N");
    const int64_t most = key == "slots" ? kMostSlots : kMostRank;
    int64_t number = 0;
    const char* const end = part.data() + part.size();
    const auto [read, error] = std::from_chars(part.data() + equals + 1, end, number);
    if (error != std::errc() || read != end || number < 1 || number > most)
      return bad(key + " is no number from 1 to " + std::to_string(most));
    (key == "slots" ? adapters.slots : adapters.rank) = number;
  }
  if (adapters.slots == 0 || adapters.rank == 0)
    return bad(std::string(adapters.slots == 0 ? "slots" : "rank") + " is missing");
  return adapters;
}

Result<InPlace> ParseInPlace(const std::string& flag) {
  const size_t equals = flag.find('=');
  const bool is_split = equals != std::string::npos && equals > 0 && equals + 1 < flag.size();
  const InPlace parsed =
      is_split ? InPlace{flag.substr(0, equals), flag.substr(equals + 1)} : InPlace{};
  const auto stars = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '*');
  };
  if (is_split && stars(parsed.output) <= 1 && stars(parsed.output) == stars(parsed.input))
    return parsed;
  return Fail(
      ErrorKind::kUsage,
      "--in-place " + flag + ": expected OUTPUT=INPUT, either without * or with one in both");
}

}  // namespace

Result<TablePlacement> ParseTablePlacement(const std::string& flag) {
  const std::vector<std::string> known = {"host", "device"};
  const size_t equals = flag.rfind('=');
  if (equals == std::string::npos || equals == 0) {
    return Fail(ErrorKind::kUsage,
                "--table-placement " + flag + ": expected PATTERN=host or PATTERN=device");
  }
  const std::string place = flag.substr(equals + 1);
  if (place == "host" || place == "device")
    return TablePlacement{flag.substr(0, equals), place == "host"};
  return Fail(ErrorKind::kUsage, "--table-placement " + flag + ": no placement is called \"" +
                                     place + "\"" + DidYouMean(place, known) + "; there are " +
                                     Join(known, ", "));
}

std::string TableCacheText(const TableCache& cache) {
  return cache.percent > 0 ? fmt::format("{}%", cache.percent) : std::to_string(cache.bytes);
}

std::string AdaptersText(const AdapterSlots& adapters) {
  return "slots=" + std::to_string(adapters.slots) + ",rank=" + std::to_string(adapters.rank);
}

std::string AsPattern(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    if (std::string_view("*?[]\\").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

Result<void> ApplyModelFlags(const ModelFlags& flags, CompileOptions& options) {
  for (const std::string& name : flags.disabled_fusions) {
    FUSEC_TRY(CheckFusion(name));
    options.disabled_fusions.insert(name);
  }
  if (flags.keep_lora) options.disabled_fusions.insert("merge-lora");
  for (const std::string& freeze : flags.freezes) {
    const size_t equals = freeze.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Fail(ErrorKind::kUsage, "--freeze " + freeze + ": expected NAME=FILE.npy");
    }
    FUSEC_ASSIGN(TensorData data, ReadTensor(freeze.substr(equals + 1)));
    if (!options.frozen_inputs.emplace(freeze.substr(0, equals), std::move(data)).second) {
      return Fail(ErrorKind::kUsage, "--freeze " + freeze + ": expected every name only once");
    }
  }
  for (const std::string& flag : flags.table_storage) {
    FUSEC_ASSIGN(TableStorage storage, ParseTableStorage(flag));
    options.table_storage.push_back(std::move(storage));
  }
  for (const std::string& flag : flags.table_placement) {
    FUSEC_ASSIGN(TablePlacement placement, ParseTablePlacement(flag));
    options.table_placement.push_back(std::move(placement));
  }
  if (flags.table_cache) {
    const bool has_host_tables =
        std::any_of(options.table_placement.begin(), options.table_placement.end(),
                    [](const TablePlacement& placement) { return placement.on_host; });
    if (!has_host_tables) {
      return Fail(ErrorKind::kUsage, "--table-cache " + *flags.table_cache +
                                         ": no table lies in host memory; --table-placement "
                                         "'PATTERN=host' puts some there");
    }
    FUSEC_ASSIGN(options.table_cache, ParseTableCache(*flags.table_cache));
  }
  if (flags.adapters) {
    FUSEC_ASSIGN(options.adapters, ParseAdapters(*flags.adapters));
  }
  if (flags.request_map && flags.per_request.empty())
    return Fail(ErrorKind::kUsage,
                "--request-map: expected the inputs that come once per request (--per-request)");
  options.per_request = {flags.per_request, flags.request_map};
  for (const std::string& flag : flags.in_place) {
    FUSEC_ASSIGN(InPlace in_place, ParseInPlace(flag));
    options.in_place.push_back(std::move(in_place));
  }
  options.updatable = flags.updatable;
  options.round_every_op = flags.round_every_op;
  options.batch_invariant = flags.batch_invariant;
  if (flags.matmul_precision) options.matmul_precision = *flags.matmul_precision;
  if (flags.float8_budget && options.matmul_precision != "fp8")
    return Fail(ErrorKind::kUsage, "--fp8-budget needs --matmul-precision fp8");
  if (flags.float8_budget) options.float8_budget = *flags.float8_budget;
  if (flags.index_policy) options.index_policy = *flags.index_policy;
  return {};
}

}  // namespace fusec
