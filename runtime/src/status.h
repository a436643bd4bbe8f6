#pragma once

#include <fusec/fusec.h>

#include <concepts>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace fusec::runtime {

// An error as the C interface returns it: its code, and one line without a full stop.
struct RuntimeError {
  fusec_status code = FUSEC_BAD_ARTIFACT;
  std::string message;
};

// A value, or the error that occurred instead. The runtime throws no exceptions; c_api.cc catches
// those of the standard library.
template <class T>
class [[nodiscard]] StatusOr : public tl::expected<T, RuntimeError> {
 public:
  using tl::expected<T, RuntimeError>::expected;
};
using Status = StatusOr<void>;

namespace internal {
inline void Append(std::string& text, std::string_view part) { text += part; }
inline void Append(std::string& text, char part) { text += part; }
template <std::integral T>
void Append(std::string& text, T part) {
  text += std::to_string(part);
}
}  // namespace internal

// Concatenates texts, characters and integers: Text("dim ", 3, " is ", name).
template <class... Parts>
std::string Text(const Parts&... parts) {
  std::string text;
  (internal::Append(text, parts), ...);
  return text;
}

template <class... Parts>
tl::unexpected<RuntimeError> Fail(fusec_status code, const Parts&... parts) {
  return tl::unexpected<RuntimeError>(RuntimeError{code, Text(parts...)});
}

#define FUSEC_RT_CONCAT_INNER(a, b) a##b
#define FUSEC_RT_CONCAT(a, b) FUSEC_RT_CONCAT_INNER(a, b)

// Returns the error of `expression` from this function, if it has one.
#define FUSEC_RT_TRY(expression)                                                      \
  do {                                                                                \
    auto&& fusec_status_or = (expression);                                            \
    if (!fusec_status_or)                                                             \
      return tl::unexpected<::fusec::runtime::RuntimeError>(fusec_status_or.error()); \
  } while (false)

// `FUSEC_RT_ASSIGN(auto x, F())`: x becomes F's value, or this function returns F's error.
#define FUSEC_RT_ASSIGN(target, expression)                        \
  auto FUSEC_RT_CONCAT(fusec_status_or_, __LINE__) = (expression); \
  if (!FUSEC_RT_CONCAT(fusec_status_or_, __LINE__))                \
    return tl::unexpected<::fusec::runtime::RuntimeError>(         \
        FUSEC_RT_CONCAT(fusec_status_or_, __LINE__).error());      \
  target = *std::move(FUSEC_RT_CONCAT(fusec_status_or_, __LINE__))

}  // namespace fusec::runtime
