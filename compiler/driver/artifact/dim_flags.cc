#include "compiler/driver/artifact/dim_flags.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "compiler/support/adt.h"

namespace fusec {

namespace {

std::optional<int64_t> ParseSize(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

tl::unexpected<Error> BadFlag(const std::string& flag, const std::string& expected) {
  return Fail(ErrorKind::kUsage, "--dim " + flag + ": expected " + expected);
}

Result<std::map<std::string, std::vector<int64_t>>> ParseDimLists(ArrayRef<std::string> flags) {
  constexpr const char* kExpected = "NAME=SIZE or NAME=SIZE,SIZE,..., such as batch=1,64";
  std::map<std::string, std::vector<int64_t>> lists;
  for (const std::string& flag : flags) {
    const size_t equals = flag.find('=');
    if (equals == std::string::npos || equals == 0) return BadFlag(flag, kExpected);
    std::vector<int64_t>& sizes = lists[flag.substr(0, equals)];
    for (size_t begin = equals + 1; begin <= flag.size();) {
      const size_t end = std::min(flag.find(',', begin), flag.size());
      const auto size = ParseSize(std::string_view(flag).substr(begin, end - begin));
      if (!size) return BadFlag(flag, kExpected);
      sizes.push_back(*size);
      begin = end + 1;
    }
  }
  return lists;
}

std::string NamesOf(ArrayRef<DimRange> symbols) {
  if (symbols.empty()) return "all its dims are fixed";
  std::string text = "it has ";
  for (size_t i = 0; i < symbols.size(); ++i) {
    const DimRange& symbol = symbols[i];
    text += (i ? ", " : "") + symbol.name + "=" + std::to_string(symbol.low) + ".." +
            std::to_string(symbol.high);
  }
  return text;
}

}  // namespace

Result<std::map<std::string, std::pair<int64_t, int64_t>>> ParseDimRanges(
    ArrayRef<std::string> flags) {
  std::map<std::string, std::pair<int64_t, int64_t>> ranges;
  for (const std::string& flag : flags) {
    const size_t equals = flag.find('=');
    const size_t dots = flag.find("..");
    const size_t high_begin = dots == std::string::npos ? equals + 1 : dots + 2;
    std::optional<int64_t> low, high;
    if (equals != std::string::npos && equals > 0) {
      low = ParseSize(std::string_view(flag).substr(
          equals + 1, dots == std::string::npos ? dots : dots - equals - 1));
      high = ParseSize(std::string_view(flag).substr(high_begin));
    }
    if (!low || !high) return BadFlag(flag, "NAME=LOW..HIGH or NAME=SIZE, such as batch=1..4096");
    constexpr int64_t kLargest = int64_t{1} << 62;  // the largest size that a manifest may have
    if (*high > kLargest) return BadFlag(flag, "sizes up to " + std::to_string(kLargest));
    if (!ranges.emplace(flag.substr(0, equals), std::pair(*low, *high)).second) {
      return BadFlag(flag, "every name only once");
    }
  }
  return ranges;
}

Result<std::vector<DimValues>> DimCases(ArrayRef<std::string> flags, ArrayRef<DimRange> symbols,
                                        ArrayRef<int64_t> defaults) {
  FUSEC_ASSIGN(const auto lists, ParseDimLists(flags));
  for (const auto& [name, sizes] : lists) {
    const auto symbol = std::find_if(symbols.begin(), symbols.end(),
                                     [&](const DimRange& s) { return s.name == name; });
    if (symbol == symbols.end()) {
      return Fail(ErrorKind::kUsage, "the model has no dim \"" + name + "\": " + NamesOf(symbols));
    }
    for (const int64_t size : sizes) {
      if (size >= symbol->low && size <= symbol->high) continue;
      return Fail(ErrorKind::kInput, name + " is " + std::to_string(size) + ", expected " +
                                         std::to_string(symbol->low) + ".." +
                                         std::to_string(symbol->high));
    }
  }
  std::vector<DimValues> cases;
  for (const int64_t size : defaults) {
    DimValues values;
    for (const DimRange& symbol : symbols) {
      if (!lists.count(symbol.name))
        values[symbol.name] = std::clamp(size, symbol.low, symbol.high);
    }
    if (std::find(cases.begin(), cases.end(), values) == cases.end()) cases.push_back(values);
  }
  for (const auto& [name, sizes] : lists) {
    std::vector<DimValues> longer;
    for (const DimValues& values : cases) {
      for (const int64_t size : sizes) {
        longer.push_back(values);
        longer.back()[name] = size;
      }
    }
    cases = std::move(longer);
  }
  return cases;
}

std::string DimsText(const DimValues& dims) {
  std::string text;
  for (const auto& [name, size] : dims)
    text += (text.empty() ? "" : ", ") + name + "=" + std::to_string(size);
  return text.empty() ? "static dims" : text;
}

}  // namespace fusec
