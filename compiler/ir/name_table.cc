#include "compiler/ir/name_table.h"

#include <algorithm>
#include <charconv>

namespace fusec {

void NameTable::Remove(const std::string& name) {
  taken_.erase(name);
  const size_t bar = name.rfind('_');
  if (bar == std::string::npos) return;
  uint64_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + bar + 1, end, number);
  if (error != std::errc() || rest != end) return;
  const auto found = least_free_.find(name.substr(0, bar));
  if (found != least_free_.end()) found->second = std::min(found->second, number);
}

std::string NameTable::Take(const std::string& stem) {
  if (taken_.insert(stem).second) return stem;
  uint64_t& number = least_free_.emplace(stem, 1).first->second;
  while (true) {
    const std::string name = stem + "_" + std::to_string(number);
    ++number;
    if (taken_.insert(name).second) return name;
  }
}

}  // namespace fusec
