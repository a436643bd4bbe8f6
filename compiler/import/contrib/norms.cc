// Norms, and what onnxruntime fuses in front of them.
#include <fmt/format.h>

#include "compiler/import/contrib/contrib_norms.h"
#include "compiler/import/contrib/contrib_ops.h"

namespace fusec {
namespace {

Result<std::string> LayerNormalization(const ContribNode& node) {
  Statements s;
  std::string outputs = "Y";
  if (node.Uses("InvStdDev"))
    outputs += ", Mean, InvStdDev";
  else if (node.Uses("Mean"))
    outputs += ", Mean";
  s.Set(outputs,
        "LayerNormalization<axis: int = @axis, epsilon: float = @epsilon, stash_type: int = "
        "@stash_type>(X, Scale, B)");
  return s.text();
}

// input + skip + bias, which is also the last output.
std::string SkipSum(Statements& s, const ContribNode& node) {
  const std::string sum = s.Plus(s.Let("Add(input, skip)"), node, "bias");
  if (node.Uses("input_skip_bias_sum"))
    s.Set("input_skip_bias_sum", fmt::format("Identity({})", sum));
  return sum;
}

Result<std::string> SkipLayerNormalization(const ContribNode& node) {
  Statements s;
  s.Set("output", fmt::format("LayerNormalization<epsilon: float = @epsilon>({}, gamma, beta)",
                              SkipSum(s, node)));
  return s.text();
}

Result<std::string> SkipSimplifiedLayerNormalization(const ContribNode& node) {
  Statements s;
  s.Set("output",
        fmt::format("RMSNormalization<epsilon: float = @epsilon>({}, gamma)", SkipSum(s, node)));
  return s.text();
}

Result<std::string> EmbedLayerNormalization(const ContribNode& node) {
  FUSEC_TRY(node.Require({"word_embedding", "position_embedding", "gamma", "beta"}));
  if (node.Has("segment_ids")) FUSEC_TRY(node.Require({"segment_embedding"}));
  Statements s;
  EmbedAndNormalize(s, node,
                    {.word = "word_embedding",
                     .position = "position_embedding",
                     .segment = "segment_embedding",
                     .gamma = "gamma",
                     .beta = "beta"},
                    node.Has("position_ids"));
  return s.text();
}

constexpr ContribOp kOps[] = {
    {"LayerNormalization <axis: int = -1, epsilon: float = 0.00001, stash_type: int = 1> (X, "
     "Scale, B) => (Y, Mean, InvStdDev)",
     2, nullptr, &LayerNormalization},
    {"SimplifiedLayerNormalization <axis: int = -1, epsilon: float = 0.00001, stash_type: int = 1> "
     "(X, scale) => (Y, inv_std_var)",
     2,
     "Y = RMSNormalization<axis: int = @axis, epsilon: float = @epsilon, stash_type: int = "
     "@stash_type>(X, scale)"},
    {"SkipLayerNormalization <epsilon: float = 1e-12> (input, skip, gamma, beta, bias) => (output, "
     "mean, inv_std_var, input_skip_bias_sum)",
     3, nullptr, &SkipLayerNormalization},
    {"SkipSimplifiedLayerNormalization <epsilon: float = 1e-12> (input, skip, gamma, bias) => "
     "(output, mean, inv_std_var, input_skip_bias_sum)",
     3, nullptr, &SkipSimplifiedLayerNormalization},
    {"EmbedLayerNormalization <epsilon: float = 1e-12, mask_index_type: int = 0> (input_ids, "
     "segment_ids, word_embedding, position_embedding, segment_embedding, gamma, beta, mask, "
     "position_ids) => (output, mask_index, embedding_sum)",
     1, nullptr, &EmbedLayerNormalization},
};

}  // namespace

void EmbedAndNormalize(Statements& s, const ContribNode& node, const Embeddings& embeddings,
                       bool has_position_ids) {
  std::string sum = s.Of("Gather", embeddings.word, "input_ids");
  std::string position;
  if (has_position_ids) {
    position = s.Of("Gather", embeddings.position, "position_ids");
  } else {  // the first rows, one for each element of a sequence
    const std::string length = s.Let("Shape<start = 1, end = 2>(input_ids)");
    const std::string zero = s.Ints({0});
    position = s.Of("Slice", embeddings.position, zero, length, zero);
  }
  sum = s.Of("Add", sum, position);
  if (node.Has("segment_ids")) {
    const std::string segment = s.Of("Gather", embeddings.segment, "segment_ids");
    sum = s.Of("Add", sum, segment);
  }
  s.Set(embeddings.output, fmt::format("LayerNormalization<epsilon: float = @epsilon>({}, {}, {})",
                                       sum, embeddings.gamma, embeddings.beta));
  if (node.Uses("embedding_sum")) s.Set("embedding_sum", fmt::format("Identity({})", sum));
  if (!node.Uses(embeddings.mask_index)) return;
  // How many elements of a sequence the mask keeps; 0 without a mask.
  const std::string axis = s.Ints({1});
  std::string kept;
  if (node.Has("mask")) {
    kept = s.Let("Cast<to = 6>(mask)");
  } else {
    kept = s.Let("Cast<to = 6>(input_ids)");
    kept = s.Of("Sub", kept, kept);
  }
  s.Set(embeddings.mask_index, fmt::format("ReduceSum<keepdims = 0>({}, {})", kept, axis));
}

ArrayRef<ContribOp> ContribNorms() { return kOps; }

}  // namespace fusec
