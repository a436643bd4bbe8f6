#pragma once

#include <memory>
#include <vector>

#include "runtime/src/cuda/cuda_operation.h"

namespace fusec::runtime {

// An executable CUDA graph of a list of operations, in which each node follows the previous one. It
// is built node by node; only products of cuBLASLt, whose kernels the library chooses, are child
// graphs. Between two kernels that both begin by waiting for earlier kernels the edge is
// programmatic: the second is launched while the first runs, and waits itself. Any other node
// starts when the previous node has ended; all earlier nodes have then ended too, because each of
// them waited for its predecessor.
//
// Update replaces the operations by others of the same shape, by new parameters of the nodes. The
// same shape means: the same kinds of operations in the same order, kernels with any grid,
// arguments and function but the same cluster size, copies of any size between the same places, and
// identical products. The cluster size must be the same because a driver (580.159) keeps the
// cluster size that a node was created with: of a function without clusters, the blocks that do not
// fill a cluster would not run. That driver also crashes when it launches a copy whose original
// memory has been freed, even if there is other memory at the same address or the copy has got new
// addresses.
class OperationGraph {
 public:
  // Builds `count` executables of one graph.
  static StatusOr<std::vector<OperationGraph>> Build(const OperationEnvironment& environment,
                                                     std::vector<Operation> operations,
                                                     size_t count);

  // Whether the operations have the shape of this graph.
  bool Fits(const std::vector<Operation>& operations) const;

  // Whether all nodes are kernels, which refer to memory only by its address. Other nodes cannot be
  // used any more when the memory that they were created for is freed.
  bool HasOnlyKernels() const;

  // Makes later launches run `operations`, for which Fits must be true. A running launch is not
  // affected. Returns false if the driver rejects one of the new parameters; after that or an error
  // the graph must not be used any more.
  StatusOr<bool> Update(const OperationEnvironment& environment,
                        const std::vector<Operation>& operations);

  Status Launch(const CudaContext& context, CUstream stream) const {
    return FUSEC_CUDA(context, {}, cuGraphLaunch, executable_.get(), stream);
  }

 private:
  // The graph and its nodes, which all executables share and by which Update identifies nodes.
  struct Nodes {
    CudaGraph graph;
    std::vector<CUgraphNode> nodes;  // by operation
  };
  StatusOr<bool> UpdateNode(const CudaContext& context, size_t i, const Operation& operation) const;

  std::shared_ptr<const Nodes> graph_;
  CudaGraphExec executable_;
  std::vector<Operation> operations_;
};

}  // namespace fusec::runtime
