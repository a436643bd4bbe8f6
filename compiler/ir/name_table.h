#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace fusec {

// The names of a graph's values, for graphs that grow by many: gives the names that a look at all
// values would give, in a time that does not depend on how many there are.
class NameTable {
 public:
  void Add(const std::string& name) { taken_.insert(name); }
  void Remove(const std::string& name);
  // `stem` itself, or with the least number behind it that makes a name which is not taken: it then
  // is.
  std::string Take(const std::string& stem);

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, uint64_t> least_free_;  // all numbers below are taken, by stem
};

}  // namespace fusec
