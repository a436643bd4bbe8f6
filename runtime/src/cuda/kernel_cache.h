#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/src/status.h"

namespace fusec::runtime {

// Results of compilers on disk, found by what they were made from. Any number of threads and
// processes may share a folder. Trouble with the folder (unwritable, full, damaged) costs time,
// never an error.
//
// An entry is FOLDER/ab/cdef...: a header (magic, size and XXH3-128 of the value), then the value.
// The name is the XXH3-128 of the key. It is written under another name and renamed, so a reader
// sees a whole entry or none.
class KernelCache {
 public:
  // $FUSEC_CACHE_DIR, else $XDG_CACHE_HOME/fusec, else ~/.cache/fusec.
  static KernelCache Default();
  // An empty folder name makes a cache that keeps nothing.
  explicit KernelCache(std::string folder) : folder_(std::move(folder)) {}

  const std::string& folder() const { return folder_; }

  // The value kept under `key`, or what `make` gives, kept for the next time. The key must hold all
  // that the value depends on: source text, options, the compiler's version.
  StatusOr<std::string> GetOrMake(std::string_view key,
                                  const std::function<StatusOr<std::string>()>& make) const;
  // The value kept under `key`, if there is one.
  std::optional<std::string> Find(std::string_view key) const;
  void Keep(std::string_view key, std::string_view value) const;
  // The file that holds (or would hold) the value of `key`.
  std::string PathOf(std::string_view key) const;

 private:
  std::string folder_;
};

}  // namespace fusec::runtime
