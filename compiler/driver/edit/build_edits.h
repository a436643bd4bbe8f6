#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/driver/edit/editable_artifact.h"
#include "compiler/driver/edit/kernel_text.h"

namespace fusec {

// A source whose text differs from the compiler's.
struct Edit {
  const KernelSource* source = nullptr;
  std::string text;
  std::string file;                              // where the user edits it, for messages
  std::vector<std::string> functions;            // the kernels that differ
  std::map<std::string, StatedLaunch> launches;  // of those whose launch differs, by function
};

// The texts that differ: those of the working copy, if `folder` is one (""), else those that lie in
// the artifact. An error names the file and line of a launch that does not fit its kernel.
Result<std::vector<Edit>> FindEdits(const EditableArtifact& artifact, const std::string& folder);

// What edits make of an artifact: its manifest, and the files that are new or other bytes.
struct EditedFiles {
  EditableArtifact::Json manifest;  // without the hashes of files
  std::map<std::string, std::string> files;
  std::vector<std::string> warnings;
};

// Compiles the edited kernels for every target that has them; the others keep their machine code.
// On a GPU, each edited kernel becomes a module of its own. An error of the text is kInput, and
// shows the compiler's log with the lines of Edit::file.
Result<EditedFiles> BuildEdits(const EditableArtifact& artifact, ArrayRef<Edit> edits);

// Marks the edited kernels of a target with what their check said.
void MarkChecked(const std::string& target, const std::string& check, EditedFiles& edited);

// Fills an empty folder with the edited artifact; WriteEditedManifest writes only the manifest.
Result<void> WriteEdited(const EditableArtifact& artifact, const EditedFiles& edited,
                         const std::string& folder);
Result<void> WriteEditedManifest(const EditableArtifact& artifact, const EditedFiles& edited,
                                 const std::string& folder);

}  // namespace fusec
