#pragma once

#include <string>
#include <vector>

#include "compiler/driver/edit/editable_artifact.h"

namespace fusec {

// A folder beside an artifact in which the texts of its kernels are edited: one file per GPU
// kernel, k00_softmax.cu, and kernels.cc with all kernels for the CPU.

// "out.edit" for "out" and "out/".
std::string WorkingCopyOf(const std::string& artifact);

struct CopiedFile {
  std::string path;
  bool was_there = false;  // the file existed, and was left as it was
};

// Copies the sources of the named kernels (or of all kernels if none are named) from the artifact.
// Existing copies are left as they are, because they may be edited.
Result<std::vector<CopiedFile>> OpenWorkingCopy(const EditableArtifact& artifact,
                                                ArrayRef<std::string> kernels,
                                                const std::string& folder);

// Copies the .cu and .cc files of another folder, `from`, and replaces existing copies. Every file
// must have the name of a source of the artifact.
Result<std::vector<CopiedFile>> TakeEditedFiles(const EditableArtifact& artifact,
                                                const std::string& from, const std::string& folder);

}  // namespace fusec
