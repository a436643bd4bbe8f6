#include "compiler/driver/pipeline.h"

namespace fusec {

std::vector<std::string> SharedPasses() {
  return {
      // Import leaves the chains that computed shapes; nobody reads them once shapes are
      // attributes.
      "eliminate-dead-nodes",
      // Constants first, so that the rewrites below see them.
      "fold-constants",
      "canonicalize",
      // Composite ops become primitives; what they are made of often folds again.
      "decompose",
      "fold-constants",
      "canonicalize",
      // Equal nodes are shared before anything is fused: a shared value is stored once or computed
      // in one region.
      "eliminate-common",
      "eliminate-dead-nodes",
      // Before its parts are fused as if they were any ops.
      "recognize-gelu",
      // Needs the adapter's input to be one value with its layer's.
      "merge-lora",
      // Behind merge-lora, which looks for the scale of the adapter.
      "fold-scale",
      "fold-affine",
      // A view read twice would look like a value read twice and end up in memory.
      "split-views",
  };
}

std::vector<std::string> FusionPasses(TargetKind target) {
  std::vector<std::string> passes;
  // A block of a GPU keeps a whole chain of small products in its shared memory. On the CPU the
  // library's products and the cache do as well.
  if (target == TargetKind::kGpu) passes.push_back("fuse-block-program");
  passes.insert(
      passes.end(),
      {
          // Matmuls first: what the library does for free is taken away from the loops.
          "fuse-matmul-epilogue",
          // Reductions before loops, because a loop may be made part of a reduction but
          // not the other way round.
          "fuse-row-reduction",
          // Before general loops, so that a concatenation of gathers is written once and
          // not recomputed by its readers.
          "fuse-embedding-concat",
          "fuse-pointwise",
          // What no fusion wanted becomes a region of its own: planning sees regions only.
          "outline-regions",
      });
  return passes;
}

std::vector<std::string> PipelinePasses(TargetKind target) {
  std::vector<std::string> passes = SharedPasses();
  for (const std::string& pass : FusionPasses(target)) passes.push_back(pass);
  return passes;
}

}  // namespace fusec
