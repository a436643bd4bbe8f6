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
      // Import leaves ops that computed shapes. Shapes are attributes: nobody reads these ops.
      "eliminate-dead-nodes",
      // While tables have the names of the model, and before constants are computed from them.
      "place-tables",
      // Likewise. Behind place-tables: a quantized table lies where the table does.
      "quantize-tables",
      // Before dequantize-after-gather, which then sees look-ups of codes.
      "skip-requantization",
      // Before constants are folded, which would turn quantized tables into tables of floats.
      "dequantize-after-gather",
      "keep-packed-weights",  // for the same reason
  };
  // Before ops are decomposed, because the results of the model's own ops are rounded; else before
  // constants are folded, which would turn weights of 8 bits into floats.
  passes.push_back(round_every_op ? "round-every-op" : "recognize-integer-products");
  Append(passes, {
                     // Constants first, so that the rewrites below see them.
                     "fold-constants",
                     "canonicalize",
                     "update-in-place",  // behind canonicalize, which removes empty paddings
                     "decompose",        // makes primitives, many of which can be folded again
                     // Behind decompose: all indices are operands of gathers and scatters.
                     "index-policy",
                     "fold-constants",
                     // For the products that convolutions became, whose weights are constants. Its
                     // transposes of these weights are folded again.
                     "channels-last",
                     // Before order-batch, for the products that make queries, keys and values.
                     "restore-rows",
                     // Behind canonicalize, which makes transposes of concatenated heads. Behind
                     // decompose: it passes the parts of a softmax.
                     "order-batch",
                     // Behind channels-last, whose products of columns have rows with such an axis.
                     "drop-unit-axes",
                     "fold-constants",
                     "canonicalize",
                     // Before equal nodes are shared, because several searches may share one list.
                     "recognize-lookup",
                     // Equal nodes are shared before anything is fused: a shared value is stored
                     // once or computed in one region.
                     "eliminate-common",
                     "eliminate-dead-nodes",
                     // Before the ops that make up a GELU are rewritten or fused one by one.
                     "recognize-gelu",
                 });
  // Before adapters are merged.
  passes.push_back("adapter-slots");
  if (!round_every_op) {
    Append(passes, {
                       // Needs the adapter and its layer to read the same value, which
                       // eliminate-common ensures.
                       "merge-lora",
                       // Before the rewrites below, which then need not treat dead columns.
                       "drop-dead-columns",
                       // Behind merge-lora, which needs the scale of the adapter to be an op.
                       "fold-scale",
                       "fold-affine",
                       // Behind fold-scale, which removes scales between two layers.
                       "merge-linear",
                       // Behind all passes that change the weights of layers.
                       "combine-parts",
                       // Behind all passes that change the vector of pairwise products.
                       "fold-symmetric",
                   });
  }
  // Behind all passes that look for layers and their adapters, because it may move the two apart.
  passes.push_back("hoist-requests");
  // Behind hoist-requests, which puts the parts per request of a concatenation next to each other.
  if (!round_every_op) passes.push_back("split-seams");
  Append(passes, {
                     // Folds the split weights, and removes replications that have become trivial.
                     "fold-constants",
                     "canonicalize",
                     "eliminate-common",
                     "eliminate-dead-nodes",
                 });
  return passes;
}

// A block of a GPU can keep a whole chain of small products in its shared memory. On the CPU, the
// library's products with the cache are as fast.
std::vector<std::string> ProductPassesOfGpu() {
  return {
      // Before the sums of layers and adapters are fused into attention or
      // products, which would then read both summands.
      "fuse-slot-matmul",
      // Before a kernel contains the concatenation that it pads.
      "pad-depth",
      // Before block programs, which can contain the sums of the parts.
      "share-long-sums",
      "fold-constants",
      // Before block programs, which take the attention that is too small for it.
      "fuse-attention",
      "fuse-block-program",
      // For the products that are still ops of their own: only their kernels read
      // transposed weights.
      "transpose-weights",
      "fold-constants",
      // While products are ops of their own, with the weights that kernels read.
      "float8-products",
      "exact-half-products",  // behind float8-products, whose factors are no exact halves
      "fold-constants",
      // Before all passes that would give the operand's ops a kernel of their own.
      "fuse-matmul-prologue",
      // Before the tail of one of the two products reads the other from memory.
      "fuse-paired-products",
      "fold-constants",
      // Before fuse-matmul-epilogue, which fuses only the epilogues that the
      // library has.
      "fuse-matmul-tail",
      // Again, for slot products that it left to kernels of products but that
      // these did not take.
      "fuse-slot-matmul",
  };
}

std::vector<std::string> FusionPasses(TargetKind target) {
  std::vector<std::string> passes;
  // Only CPUs have a library that is faster with 8-bit integers than with f32. The passes that
  // follow simplify what the replaced products become.
  if (target == TargetKind::kCpu) passes.push_back("keep-integer-products");
  Append(passes, {
                     "expand-integer-products",
                     "fold-constants",
                     "canonicalize",
                     "eliminate-common",
                     "eliminate-dead-nodes",
                 });
  // Before split-views, which gives each reader a range of its own.
  passes.push_back("recognize-ranges");
  // Before every reader gets a view of its own.
  passes.push_back("group-heads");
  // Before chains are stacked, because products of one input are better joined side by side.
  passes.push_back("join-products");
  // On a GPU, a small batch is bound by launches. Before prologues and epilogues of products are
  // fused.
  if (target == TargetKind::kGpu) passes.push_back("stack-products");
  // Behind all passes that change look-ups. The CPU needs no cache of rows in host memory.
  if (target == TargetKind::kGpu) passes.push_back("cache-tables");
  // Before sorts are split, and before look-ups and bags are fused with what makes their operands.
  // Scatters to the same places share a sort, also if these have been in other shapes. Places that
  // are constants are sorted at compile time.
  if (target == TargetKind::kGpu)
    Append(passes, {"sort-scatters", "canonicalize", "eliminate-common", "order-updates",
                    "canonicalize", "eliminate-common", "eliminate-dead-nodes", "fold-constants",
                    "eliminate-dead-nodes"});
  // Before sorts are split. Behind eliminate-common, because sums compute their places again.
  if (target == TargetKind::kGpu) passes.push_back("find-updates");
  // Blocks of a GPU sort in shared memory.
  passes.push_back(target == TargetKind::kGpu ? "split-lines" : "split-sorts");
  // Before reductions are fused with what makes their operands.
  passes.push_back("split-reductions");
  // Gives each reader a view of its own, because a value that is read twice is stored in memory.
  passes.push_back("split-views");
  // Before any pass reads the weights, whose rows it reorders with the pairs. Kernels that compute
  // pairwise products then read neighbouring elements together.
  Append(passes, {"order-pairs", "fold-constants"});
  if (target == TargetKind::kGpu) Append(passes, ProductPassesOfGpu());
  Append(passes, {
                     // Matrix products first: the library's epilogues cost nothing, unlike loops.
                     "fuse-matmul-epilogue",
                     // Before passes that would give these ops kernels of their own.
                     "fuse-sequential",
                     // Before general loops, so that a concatenation of gathers is written once
                     // instead of being recomputed by its readers. Before reductions, because its
                     // regions include those that pool the rows to concatenate.
                     "fuse-embedding-concat",
                     // Reductions before loops, because a loop may become part of a reduction but
                     // not the other way round.
                     "fuse-row-reduction",
                     "fuse-pointwise",
                     // Behind all passes that make regions of products and of pointwise ops.
                     "fuse-dequantization",
                     // Every op that no fusion took becomes a region of its own, because planning
                     // works on regions only.
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
