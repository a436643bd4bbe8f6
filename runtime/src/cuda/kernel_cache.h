#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/src/status.h"

namespace fusec::runtime {

// A cache on disk of compiled code, by a key of everything that the code depends on. Any number of
// threads and processes may share a folder. Problems of the folder (not writable, full, damaged)
// only cost time; they are never errors.
//
// An entry is FOLDER/ab/cdef...: a header (magic, size and XXH3-128 of the value), then the value.
// The name is the XXH3-128 of the key. An entry is written under another name and then renamed, so
// that a reader sees either a complete entry or none.
class KernelCache {
 public:
  // $FUSEC_CACHE_DIR, else $XDG_CACHE_HOME/fusec, else ~/.cache/fusec.
  static KernelCache Default();
  // An empty folder name gives a cache that stores nothing.
  explicit KernelCache(std::string folder) : folder_(std::move(folder)) {}

  const std::string& folder() const { return folder_; }

  // The value stored under `key`; if there is none, that of `make`, which is then stored. The key
  // must contain everything on which the value depends: source text, options, the compiler's
  // version.
  StatusOr<std::string> GetOrMake(std::string_view key,
                                  const std::function<StatusOr<std::string>()>& make) const;
  // The value stored under `key`, if there is one.
  std::optional<std::string> Find(std::string_view key) const;
  void Keep(std::string_view key, std::string_view value) const;
  // The file that holds (or would hold) the value of `key`.
  std::string PathOf(std::string_view key) const;

 private:
  std::string folder_;
};

}  // namespace fusec::runtime
