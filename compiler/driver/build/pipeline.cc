#include "compiler/driver/build/pipeline.h"

namespace fusec {

namespace {

using Names = std::vector<std::string>;

void Append(Names& passes, const Names& more) {
  passes.insert(passes.end(), more.begin(), more.end());
}

}  // namespace

std::vector<std::string> SharedPasses(bool round_every_op) {
  std::vector<std::string> passes = {
      // Import leaves the chains that computed shapes; nobody reads them once shapes are
      // attributes.
      "eliminate-dead-nodes",
      // While tables have the names that the model gave them, and before anything is computed of
      // their numbers.
      "place-tables",
      // Likewise; what it makes of a table lies where the table does.
      "quantize-tables",
      // Before constants are folded, of which tables of floats would be made.
      "dequantize-after-gather",
  };
  // Before anything is taken apart or rewritten: the model's own ops are what rounds.
  if (round_every_op) passes.push_back("round-every-op");
  Append(passes, {
                     // Constants first, so that the rewrites below see them.
                     "fold-constants",
                     "canonicalize",
                     // Composite ops become primitives; what they are made of often folds again.
                     "decompose",
                     // All indices are operands of gathers and scatters now.
                     "index-policy",
                     "fold-constants",
                     // Of the products that convolutions have become, whose weights are constants
                     // now; what it does to these folds again.
                     "channels-last",
                     "fold-constants",
                     "canonicalize",
                     // Before equal nodes are shared, because searches may share their list.
                     "recognize-lookup",
                     // Equal nodes are shared before anything is fused: a shared value is stored
                     // once or computed in one region.
                     "eliminate-common",
                     "eliminate-dead-nodes",
                     // Before its parts are fused as if they were any ops.
                     "recognize-gelu",
                 });
  // Before adapters are merged.
  passes.push_back("adapter-slots");
  if (!round_every_op) {
    Append(passes, {
                       // Needs the adapter's input to be one value with its layer's.
                       "merge-lora",
                       // What is not there need not be rewritten.
                       "drop-dead-columns",
                       // Behind merge-lora, which looks for the scale of the adapter.
                       "fold-scale",
                       "fold-affine",
                       // Layers between which a scale was see each other now.
                       "merge-linear",
                       // Behind all that changes the weights of layers.
                       "combine-parts",
                       // Behind all that changes what the vector is.
                       "fold-symmetric",
                   });
  }
  // Behind all that looks for layers and their adapters, of which it moves some apart.
  passes.push_back("hoist-requests");
  // Concatenations have their parts per request next to each other now.
  if (!round_every_op) passes.push_back("split-seams");
  Append(passes, {
                     // Rows of weights, and replications that are none any more.
                     "fold-constants",
                     "canonicalize",
                     "eliminate-common",
                     "eliminate-dead-nodes",
                 });
  return passes;
}

std::vector<std::string> FusionPasses(TargetKind target) {
  std::vector<std::string> passes;
  // Before chains are stacked, since chains of one input are better off side by side.
  passes.push_back("join-products");
  // A small batch waits for launches on a GPU. Before inputs and tails of products are fused.
  if (target == TargetKind::kGpu) passes.push_back("stack-products");
  // Behind all that makes look-ups of others. The CPU reads rows where they are.
  if (target == TargetKind::kGpu) passes.push_back("cache-tables");
  // A view read twice would look like a value read twice and end up in memory.
  passes.push_back("split-views");
  // Before anything looks at the weights, which it orders, too. Loops that make pairs and kernels
  // of products that do read neighbours together.
  Append(passes, {"order-pairs", "fold-constants"});
  // A block of a GPU keeps a whole chain of small products in its shared memory. On the CPU the
  // library's products and the cache do as well.
  if (target == TargetKind::kGpu) {
    Append(passes, {
                       // Before attention and products take the sums of layers and adapters, for
                       // which they would read both.
                       "fuse-slot-matmul",
                       // Before the concatenation is part of a kernel.
                       "pad-depth",
                       // Before block programs, which take the sums of the parts.
                       "share-long-sums",
                       "fold-constants",
                       // Before block programs, which take what is too small for it.
                       "fuse-attention",
                       "fuse-block-program",
                       // For the products that are left, as they are the ones that read weights
                       // this way.
                       "transpose-weights",
                       "fold-constants",
                       // While products stand alone, with the weights that kernels read.
                       "float8-products",
                       "fold-constants",
                       // Before all that would make a kernel of the operand alone.
                       "fuse-matmul-prologue",
                       // Before fuse-matmul-epilogue, which leaves what the library cannot do
                       // outside.
                       "fuse-matmul-tail",
                       // What it left for kernels of products, and they did not take.
                       "fuse-slot-matmul",
                   });
  }
  Append(passes, {
                     // Matmuls first: what the library does for free is taken away from the loops.
                     "fuse-matmul-epilogue",
                     // Before general loops, so that a concatenation of gathers is written once and
                     // not recomputed by its readers; before reductions, which it takes where they
                     // pool rows that it concatenates.
                     "fuse-embedding-concat",
                     // Reductions before loops, because a loop may be made part of a reduction but
                     // not the other way round.
                     "fuse-row-reduction",
                     "fuse-pointwise",
                     // What no fusion wanted becomes a region of its own: planning sees regions
                     // only.
                     "outline-regions",
                 });
  return passes;
}

std::vector<std::string> PipelinePasses(TargetKind target, bool round_every_op) {
  std::vector<std::string> passes = SharedPasses(round_every_op);
  Append(passes, FusionPasses(target));
  return passes;
}

}  // namespace fusec
