#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/driver/edit/editable_artifact.h"
#include "compiler/driver/edit/kernel_text.h"

namespace fusec {

// A source file of kernels whose text differs from the one that the compiler generated.
struct Edit {
  const KernelSource* source = nullptr;
  std::string text;
  std::string file;                              // path of the edited file, for messages
  std::vector<std::string> functions;            // the kernels that differ
  std::map<std::string, StatedLaunch> launches;  // launches that differ, by function
};

// The texts that differ from the originals, in the working copy `folder` ("" for none) or in the
// artifact itself. An error names the file and line of a launch that does not fit its kernel.
Result<std::vector<Edit>> FindEdits(const EditableArtifact& artifact, const std::string& folder);

// The manifest of an edited artifact, and its files that are new or changed.
struct EditedFiles {
  EditableArtifact::Json manifest;  // without the hashes of files
  std::map<std::string, std::string> files;
  std::vector<std::string> warnings;
};

// Compiles the edited kernels for every target that has them; other kernels keep their machine
// code. On a GPU, each edited source becomes a module of its own. An error in the text is of kind
// kInput and shows the compiler's log with the line numbers of Edit::file.
Result<EditedFiles> BuildEdits(const EditableArtifact& artifact, ArrayRef<Edit> edits);

// Marks the edited kernels of a target with the result of their check, "passed" or "failed".
void MarkChecked(const std::string& target, const std::string& check, EditedFiles& edited);

// Writes the edited artifact into an empty folder; WriteEditedManifest writes only its manifest.
Result<void> WriteEdited(const EditableArtifact& artifact, const EditedFiles& edited,
                         const std::string& folder);
Result<void> WriteEditedManifest(const EditableArtifact& artifact, const EditedFiles& edited,
                                 const std::string& folder);

}  // namespace fusec
