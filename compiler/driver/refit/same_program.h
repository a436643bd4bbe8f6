#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "compiler/driver/edit/editable_artifact.h"
#include "compiler/package/artifact_writer.h"

namespace fusec {

// Whether a model with new weights is the artifact's program: the same kernels with the same texts,
// launches and tensors. Edits of kernels do not count.
struct NewProgram {
  const ArtifactContents& contents;        // planned, its kernels written down
  const nlohmann::ordered_json& manifest;  // of the contents
  std::string weights;                     // the file, for errors
};
// The error says what differs: another model, a number that a kernel's text holds, or a tensor that
// only one of the two stores.
Result<void> CheckSameProgram(const EditableArtifact& artifact, const NewProgram& program);

// The buffers of a manifest without the hashes that make names of constants unique.
nlohmann::ordered_json PlainBuffers(const nlohmann::ordered_json& buffers);

}  // namespace fusec
