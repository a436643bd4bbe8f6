#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/src/artifact/manifest.h"
#include "runtime/src/artifact/mapped_file.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// An opened artifact: its manifest and its weights, mapped and checked. Immutable after Open, but
// for constants that were made writable.
class Artifact {
 public:
  static StatusOr<std::unique_ptr<Artifact>> Open(const std::string& path);
  // Without weights: Constant may not be called.
  static StatusOr<std::unique_ptr<Artifact>> OpenManifest(const std::string& path);

  const std::string& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }
  // The bytes of a buffer of kind constant, of exactly the size that the manifest says; empty for
  // any other buffer. They start at a multiple of 256 bytes and live as long as the artifact.
  std::span<const std::byte> Constant(int buffer) const { return constants_[buffer]; }

  // An error if the file of weights was cut off since it was mapped. Asked before the constants are
  // read: a moment later it may still happen, and the system would end the process.
  Status CheckWeights() const;

  // The same bytes to be written: in the memory of this process alone, and of pages that are
  // written to.
  StatusOr<std::span<std::byte>> MakeWritable(int buffer);

  // Maps a file of the artifact after comparing it with its hash in the manifest. A path that the
  // manifest does not list, a missing and an altered file are errors that name it.
  StatusOr<MappedFile> ReadFile(const std::string& relative_path) const;

 private:
  Artifact() = default;
  Status LoadConstants();

  struct AlignedDelete {
    void operator()(std::byte* memory) const;
  };
  std::string path_;
  Manifest manifest_;
  MappedFile weights_;
  std::vector<std::span<const std::byte>> constants_;  // by buffer
  // Of tensors that are not aligned in the file.
  std::vector<std::unique_ptr<std::byte[], AlignedDelete>> copies_;
};

}  // namespace fusec::runtime
