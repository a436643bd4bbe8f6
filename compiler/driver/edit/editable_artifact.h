#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/support/adt.h"
#include "compiler/support/result.h"

namespace fusec {

// A source file of kernels in an artifact.
struct KernelSource {
  std::string path;      // "kernels/k00_softmax.cu", "cpu/kernels.cc"
  std::string original;  // as the compiler wrote it
  std::string current;   // as it lies in the artifact
  bool altered = false;  // it is not the text that was compiled: edited in its place

  bool is_cpu() const { return path.ends_with(".cc"); }
  std::string file_name() const { return path.substr(path.find_last_of('/') + 1); }
};

// An artifact with what it was before its kernels were edited. Edits replace files of an artifact;
// the replaced ones, and the manifest without edits, lie under original/.
struct EditableArtifact {
  using Json = nlohmann::ordered_json;

  std::string path;
  std::string original_manifest;              // its text
  Json original;                              // the same, read
  std::map<std::string, std::string> kept;    // bytes of the files under original/, by first path
  std::map<std::string, std::string> hashes;  // of all files as they should be now
  std::vector<KernelSource> sources;          // in the order of the steps

  bool is_edited() const { return !kept.empty(); }
};

inline constexpr const char* kOriginals = "original/";

// The error names a file that was altered and is not the text of a kernel. The original of a text
// that was altered in its place is made again, from the graph in the artifact.
Result<EditableArtifact> ReadEditable(const std::string& artifact);

// The texts of a target's kernels by path, written down again from the graph in the artifact; of
// all targets for "".
Result<std::map<std::string, std::string>> EmitAgain(const std::string& artifact,
                                                     const std::string& target);

// Sources of the kernels with these names, those of all kernels if there are none. The error
// proposes similar names.
Result<std::vector<const KernelSource*>> SourcesOf(const EditableArtifact& artifact,
                                                   ArrayRef<std::string> kernels);

// Writes what the artifact was before any edit into an empty folder, as links where it can.
Result<void> WriteOriginal(const EditableArtifact& artifact, const std::string& folder);

// The file of the artifact at `path` becomes the same in `folder`, without being copied if it can
// be. The error names a file (other than the weights) that was altered.
Result<void> LinkFile(const EditableArtifact& artifact, const std::string& path,
                      const std::string& folder);
// Writes a file whose folder may be missing.
Result<void> WriteFileIn(const std::string& folder, const std::string& path,
                         const std::string& bytes);

}  // namespace fusec
