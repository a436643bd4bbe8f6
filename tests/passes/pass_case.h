#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "passes/pass_manager.h"

namespace fusec {

// A case of tests/passes is one file, tests/passes/<pass>/NAME.ir:
//
//     # Why this case is here.
//     # run: fold-constants,canonicalize
//     graph ...
//     # ---- expected ----
//     graph ...
//
// The passes of "# run:" run in this order. After a space may follow any number of options:
// "disable: NAME" leaves a fusion out, and "index-policy: WORD", "matmul-precision: WORD",
// "table-storage: PATTERN=STORAGE", "table-placement: PATTERN=host", "table-cache: PERCENT%",
// "table-cache: BYTES", "adapters: SLOTS,RANK", "per-request: PATTERN", "in-place: OUTPUT=INPUT"
// and "block-shared: BYTES" set that option. Instead of a graph, the expectation may be "error: "
// and the text of the error.
struct PassCase {
  std::vector<std::string> passes;
  PassOptions options;
  std::string head, expected;  // the text before and after the dividing line
};

inline const std::string kPassCases = FUSEC_SOURCE_DIR "/tests/passes/";
inline const std::string kExpectedLine = "# ---- expected ----\n";

inline void SetOption(const std::string& keyword, const std::string& value, PassOptions& options) {
  if (keyword == "disable:") options.disabled_fusions.insert(value);
  if (keyword == "index-policy:") options.index_policy = value;
  if (keyword == "matmul-precision:") options.matmul_precision = value;
  if (keyword == "table-storage:") {
    const size_t equals = value.find('=');
    options.table_storage.push_back(
        {value.substr(0, equals), ParseRowStorage(value.substr(equals + 1)).value()});
  }
  if (keyword == "table-placement:") {
    const size_t equals = value.find('=');
    options.table_placement.push_back(
        {value.substr(0, equals), value.substr(equals + 1) == "host"});
  }
  if (keyword == "in-place:")
    options.in_place.push_back(
        {value.substr(0, value.find('=')), value.substr(value.find('=') + 1)});
  if (keyword == "block-shared:") options.block_shared_bytes = std::stoll(value);
  if (keyword == "per-request:") options.per_request.inputs.push_back(value);
  if (keyword == "table-cache:") {
    const double number = std::stod(value);
    options.table_cache =
        value.ends_with('%') ? TableCache{0, number} : TableCache{std::stoll(value), 0};
  }
  if (keyword == "adapters:")
    options.adapters = {std::stoll(value), std::stoll(value.substr(value.find(',') + 1))};
}

inline PassCase ReadPassCase(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  PassCase result;
  const size_t divider = text.find(kExpectedLine);
  result.head = text.substr(0, divider);
  if (divider != std::string::npos) result.expected = text.substr(divider + kExpectedLine.size());
  std::istringstream lines(result.head);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("# run: ")) continue;
    std::istringstream words(line.substr(7));
    std::string names, keyword, value;
    words >> names;
    while (words >> keyword >> value) SetOption(keyword, value, result.options);
    std::istringstream list(names);
    for (std::string name; std::getline(list, name, ',');) result.passes.push_back(name);
  }
  return result;
}

// The sorted paths of the cases in `folder` of tests/passes ("" for all), relative to tests/passes.
inline std::vector<std::string> PassCasePaths(const std::string& folder = "") {
  namespace fs = std::filesystem;
  std::vector<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(kPassCases + folder)) {
    if (entry.path().extension() == ".ir") paths.push_back(fs::relative(entry.path(), kPassCases));
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace fusec
