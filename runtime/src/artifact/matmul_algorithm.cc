#include "runtime/src/artifact/matmul_algorithm.h"

#include <charconv>

namespace fusec::runtime {

std::string AlgorithmText(const MatmulAlgorithm& algorithm) {
  std::string text = std::to_string(algorithm.library_version);
  for (const uint64_t word : algorithm.words) {
    char digits[16];
    const auto written = std::to_chars(digits, digits + sizeof digits, word, 16);
    text += " " + std::string(digits, written.ptr);
  }
  return text;
}

std::optional<MatmulAlgorithm> ParseAlgorithm(std::string_view text) {
  MatmulAlgorithm algorithm;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto read = [&](uint64_t& number, int base) {
    const auto [next, code] = std::from_chars(at, end, number, base);
    at = next;
    return code == std::errc();
  };
  if (!read(algorithm.library_version, 10) || algorithm.library_version == 0) return std::nullopt;
  for (uint64_t& word : algorithm.words) {
    if (at == end || *at++ != ' ' || !read(word, 16)) return std::nullopt;
  }
  if (at != end) return std::nullopt;
  return algorithm;
}

}  // namespace fusec::runtime
