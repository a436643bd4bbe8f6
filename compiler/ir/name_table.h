#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace fusec {

// The names of a graph's values, for graphs to which many are added. It gives the same names as a
// scan of all values would, in constant time.
class NameTable {
 public:
  void Add(const std::string& name) { taken_.insert(name); }
  void Remove(const std::string& name);
  // Returns `stem`, or `stem`_n with the smallest n >= 1 whose name is not taken, and marks the
  // name as taken.
  std::string Take(const std::string& stem);

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, uint64_t> least_free_;  // by stem; all smaller numbers are taken
};

}  // namespace fusec
