#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "compiler/driver/edit/editable_artifact.h"
#include "compiler/package/artifact_writer.h"

namespace fusec {

// The program of a model with new weights, which is compared with an artifact.
struct NewProgram {
  const ArtifactContents& contents;        // planned, with the text of its kernels
  const nlohmann::ordered_json& manifest;  // the manifest of the contents
  std::string weights;                     // the file of the weights, for errors
};
// Checks that the program is that of the artifact: the same kernels with the same texts, launches
// and tensors. Edits of the artifact's kernels are ignored. The error says what differs: the model,
// a number in a kernel's text, or a tensor that only one of the two stores.
Result<void> CheckSameProgram(const EditableArtifact& artifact, const NewProgram& program);

// The buffers of a manifest, without the hashes that make the names of constants unique.
nlohmann::ordered_json PlainBuffers(const nlohmann::ordered_json& buffers);

}  // namespace fusec
