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
  bool was_there = false;  // and is left as it was
};

// Copies the sources of the named kernels (of all, without names), as they are in the artifact.
// Files that are there are not touched: they may be somebody's edits.
Result<std::vector<CopiedFile>> OpenWorkingCopy(const EditableArtifact& artifact,
                                                ArrayRef<std::string> kernels,
                                                const std::string& folder);

// Copies edited files from another folder instead, over what is there. Every .cu and .cc file in
// `from` must be called as a source of the artifact is.
Result<std::vector<CopiedFile>> TakeEditedFiles(const EditableArtifact& artifact,
                                                const std::string& from, const std::string& folder);

}  // namespace fusec
