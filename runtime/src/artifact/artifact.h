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

// An opened artifact: its manifest and its weights, mapped and checked. It does not change after
// Open, except for constants that were made writable.
class Artifact {
 public:
  static StatusOr<std::unique_ptr<Artifact>> Open(const std::string& path);
  // Opens the manifest without the weights; Constant must not be called then.
  static StatusOr<std::unique_ptr<Artifact>> OpenManifest(const std::string& path);

  const std::string& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }
  // The bytes of a constant buffer, of exactly the size in the manifest; empty for any other
  // buffer. They are aligned to 256 bytes and live as long as the artifact.
  std::span<const std::byte> Constant(int buffer) const { return constants_[buffer]; }

  // Returns an error if the file of weights was truncated after it was mapped. It is called before
  // the constants are read. A truncation after the check is not detected and ends the process
  // (SIGBUS).
  Status CheckWeights() const;

  // Makes the bytes of a constant writable, as copy-on-write pages that are private to this
  // process.
  StatusOr<std::span<std::byte>> MakeWritable(int buffer);

  // Maps a file of the artifact and compares it with its hash in the manifest. A path that the
  // manifest does not list, a missing file and a changed file are errors that name the file.
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
  // Copies of tensors that are not aligned in the file.
  std::vector<std::unique_ptr<std::byte[], AlignedDelete>> copies_;
};

}  // namespace fusec::runtime
