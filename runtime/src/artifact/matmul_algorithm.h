#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fusec::runtime {

// An algorithm of cuBLASLt that tuning found to be fast for a product of some size. Its words are
// valid only for the version of the library that produced them.
struct MatmulAlgorithm {
  uint64_t library_version = 0;  // of cublasLtGetVersion; 0: no algorithm was chosen
  std::array<uint64_t, 8> words{};

  auto operator<=>(const MatmulAlgorithm&) const = default;
};

// "130002 1a 0 5000 ...": the version in decimal, the words in hexadecimal.
std::string AlgorithmText(const MatmulAlgorithm& algorithm);
std::optional<MatmulAlgorithm> ParseAlgorithm(std::string_view text);

}  // namespace fusec::runtime
