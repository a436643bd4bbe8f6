#pragma once

#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>

namespace fusec {

// Marks a word, in a kernel that is being planned, as coming from the model; such words get their
// final names when the kernel is complete (kernel/model_names.h). Text of users never contains this
// character, and it sorts before all other characters of words.
inline constexpr char kModelMark = '\x1f';

inline bool IsWordCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == kModelMark;
}

// Calls visit(word, position) for every word of `text`, that is, every maximal sequence of letters,
// digits and underscores.
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

// `text` with every word replaced by replace(word, before), where `before` is the text in front of
// the word.
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
