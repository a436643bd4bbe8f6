#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace fusec {

// The cause of an error. The number is the exit code of the command line program.
enum class ErrorKind {
  kUsage = 2,      // a flag or argument is wrong
  kModel = 3,      // the model is bad, missing or unsupported
  kToolchain = 4,  // a device, compiler, driver or library is missing or failed
  kArtifact = 5,   // a compiled artifact is damaged
  kInput = 6,      // data given to a good model is wrong (name, dtype, shape, index out of range)
};

// A restriction of a symbolic dim that would have avoided an error: to sizes from `low` to `high`,
// both inclusive, or to the size of another symbol or expression.
struct FittingDim {
  std::string symbol;
  int64_t low = 0, high = 0;
  std::string same_as{};  // a symbol or an expression of symbols; "" if a range
};

// An error of the user. The message is in lower case without a full stop and names the place, what
// was found and what was expected.
struct Error {
  ErrorKind kind = ErrorKind::kModel;
  std::string message;
  std::optional<FittingDim> fitting_dim = std::nullopt;  // for sizes that do not match
};

// A value, or the Error that prevented it. A value that may be absent is a std::optional instead,
// and bugs of fusec are caught by FUSEC_CHECK.
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

// Returns the error of `expression`, if it has one, from the enclosing function.
#define FUSEC_TRY(expression)                                                       \
  do {                                                                              \
    auto&& fusec_result = (expression);                                             \
    if (!fusec_result) return tl::unexpected<::fusec::Error>(fusec_result.error()); \
  } while (false)

// `FUSEC_ASSIGN(auto x, F())`: x becomes F's value, or the enclosing function returns F's error.
#define FUSEC_ASSIGN(target, expression)                                                  \
  auto FUSEC_CONCAT(fusec_result_, __LINE__) = (expression);                              \
  if (!FUSEC_CONCAT(fusec_result_, __LINE__))                                             \
    return tl::unexpected<::fusec::Error>(FUSEC_CONCAT(fusec_result_, __LINE__).error()); \
  target = *std::move(FUSEC_CONCAT(fusec_result_, __LINE__))

}  // namespace fusec
