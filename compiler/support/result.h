#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace fusec {

// Whose fault an error is. The number is the exit code of the command line program.
enum class ErrorKind {
  kUsage = 2,      // a flag or argument is wrong
  kModel = 3,      // the model is bad, missing or unsupported
  kToolchain = 4,  // a device, compiler, driver or library is missing or failed
  kArtifact = 5,   // a compiled artifact is damaged
  kInput = 6,      // data given to a good model is wrong (name, dtype, shape, index out of range)
};

// What of a symbolic dim would have kept an error from happening: that it has sizes from `low` to
// `high`, both inclusive, or the size of another.
struct FittingDim {
  std::string symbol;
  int64_t low = 0, high = 0;
  std::string same_as{};  // another symbol; "" for sizes
};

// A user's error: lower case, no full stop, naming the place, what was found and what was expected.
struct Error {
  ErrorKind kind = ErrorKind::kModel;
  std::string message;
  std::optional<FittingDim> fitting_dim = std::nullopt;  // of a size that does not fit another
};

// A value or the Error that kept it from being made. "Not there" is std::optional, our own bugs are
// FUSEC_CHECK.
template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
};

inline tl::unexpected<Error> Fail(ErrorKind kind, std::string message) {
  return tl::unexpected<Error>(Error{kind, std::move(message), std::nullopt});
}
inline tl::unexpected<Error> ModelError(std::string message) {
  return Fail(ErrorKind::kModel, std::move(message));
}

#define FUSEC_CONCAT_INNER(a, b) a##b
#define FUSEC_CONCAT(a, b) FUSEC_CONCAT_INNER(a, b)

// Returns the error of `expression` from this function, if it has one.
#define FUSEC_TRY(expression)                                                       \
  do {                                                                              \
    auto&& fusec_result = (expression);                                             \
    if (!fusec_result) return tl::unexpected<::fusec::Error>(fusec_result.error()); \
  } while (false)

// `FUSEC_ASSIGN(auto x, F())`: x becomes F's value, or this function returns F's error.
#define FUSEC_ASSIGN(target, expression)                                                  \
  auto FUSEC_CONCAT(fusec_result_, __LINE__) = (expression);                              \
  if (!FUSEC_CONCAT(fusec_result_, __LINE__))                                             \
    return tl::unexpected<::fusec::Error>(FUSEC_CONCAT(fusec_result_, __LINE__).error()); \
  target = *std::move(FUSEC_CONCAT(fusec_result_, __LINE__))

}  // namespace fusec
