#pragma once

#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>

namespace fusec {

// In a word of a kernel that is being planned, says that the word comes from the model: it is named
// when the kernel is whole (kernel/model_names.h). No text of a user's has this character, and it
// sorts in front of all others of words.
inline constexpr char kModelMark = '\x1f';

inline bool IsWordCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == kModelMark;
}

// Calls visit(word, place) for every word of `text`: letters, digits and underscores together.
template <class Visit>
void ForEachWord(std::string_view text, const Visit& visit) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (!IsWordCharacter(text[at])) continue;
    size_t end = at;
    while (end < text.size() && IsWordCharacter(text[end])) ++end;
    visit(text.substr(at, end - at), at);
    at = end;
  }
}

// `text` with replace(word, before) in the place of every word that stands behind `before`.
template <class Replace>
std::string ReplaceWords(std::string_view text, const Replace& replace) {
  std::string result;
  size_t done = 0;
  ForEachWord(text, [&](std::string_view word, size_t at) {
    result += text.substr(done, at - done);
    result += replace(word, text.substr(0, at));
    done = at + word.size();
  });
  result += text.substr(done);
  return result;
}

}  // namespace fusec
