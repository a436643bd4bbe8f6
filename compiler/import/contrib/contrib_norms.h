#pragma once

#include "compiler/import/contrib/contrib_op.h"

namespace fusec {

// The embeddings whose sum EmbedLayerNormalization and QEmbedLayerNormalization normalize.
struct Embeddings {
  std::string word, position, segment, gamma, beta;
  // Names of outputs.
  const char* output = "output";
  const char* mask_index = "mask_index";
};
// Adds the statements of EmbedLayerNormalization on these tensors. The node has the inputs
// input_ids [batch, sequence], segment_ids and mask.
void EmbedAndNormalize(Statements& s, const ContribNode& node, const Embeddings& embeddings,
                       bool has_position_ids);

}  // namespace fusec
