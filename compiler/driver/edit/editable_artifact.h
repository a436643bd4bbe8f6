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
  std::string original;  // the text that the compiler generated
  std::string current;   // the text in the artifact
  bool altered = false;  // the text in the artifact was changed after it was compiled

  bool is_cpu() const { return path.ends_with(".cc"); }
  std::string file_name() const { return path.substr(path.find_last_of('/') + 1); }
};

// An artifact and its state before its kernels were edited. Edits replace files of an artifact; its
// folder original/ keeps the replaced files and the manifest without edits.
struct EditableArtifact {
  using Json = nlohmann::ordered_json;

  std::string path;
  std::string original_manifest;              // text of the manifest without edits
  Json original;                              // the same, parsed
  std::map<std::string, std::string> kept;    // bytes of files in original/, by their path before
  std::map<std::string, std::string> hashes;  // hashes of all files, as the manifest gives them
  std::vector<KernelSource> sources;          // in the order of the steps

  bool is_edited() const { return !kept.empty(); }
};

inline constexpr const char* kOriginals = "original/";

// Reads an artifact. The original of a kernel text that was altered in the artifact is generated
// again from the graph in the artifact; another file that was altered is an error.
Result<EditableArtifact> ReadEditable(const std::string& artifact);

// The texts of a target's kernels by path, generated again from the graph in the artifact. An empty
// `target` stands for all targets.
Result<std::map<std::string, std::string>> EmitAgain(const std::string& artifact,
                                                     const std::string& target);

// The sources of the named kernels, or of all kernels if no names are given. The error of an
// unknown name suggests similar ones.
Result<std::vector<const KernelSource*>> SourcesOf(const EditableArtifact& artifact,
                                                   ArrayRef<std::string> kernels);

// Writes the artifact as it was before any edit into an empty folder, with hard links to unchanged
// files where possible.
Result<void> WriteOriginal(const EditableArtifact& artifact, const std::string& folder);

// Creates a hard link in `folder` to the artifact's file at `path`, or a copy where links are not
// possible. A file (other than the weights) that was altered is an error.
Result<void> LinkFile(const EditableArtifact& artifact, const std::string& path,
                      const std::string& folder);
// Writes a file, and creates its folder if it is missing.
Result<void> WriteFileIn(const std::string& folder, const std::string& path,
                         const std::string& bytes);

}  // namespace fusec
