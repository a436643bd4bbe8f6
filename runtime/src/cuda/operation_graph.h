#pragma once

#include <memory>
#include <vector>

#include "runtime/src/cuda/cuda_operation.h"

namespace fusec::runtime {

// An executable CUDA graph of a list of operations, each node after the one before it. It is built
// node by node; only the products of cuBLASLt, whose kernels are its own, are child graphs. Between
// two kernels that both begin by waiting for earlier ones the edge is programmatic: the second is
// launched while the first runs, and waits itself. Any other node starts when the one before it has
// ended, and so do then all before that, since each either waited or was started late.
//
// Other operations of the same shape take the place of its own by new parameters of its nodes: the
// same kinds one behind the other, with kernels of any grid, arguments and function whose clusters
// are as large, copies of any size between the same places, and the same products. A driver
// (580.159) leaves a node the clusters that it was made with: of a function without clusters the
// blocks that fill none do not run. It also crashes in the launch of a copy whose memory has been
// freed, though there is other memory at the same address, or the copy has got other places.
class OperationGraph {
 public:
  // `count` executables of one graph.
  static StatusOr<std::vector<OperationGraph>> Build(const OperationEnvironment& environment,
                                                     std::vector<Operation> operations,
                                                     size_t count);

  // Whether the operations have its shape.
  bool Fits(const std::vector<Operation>& operations) const;

  // Whether all nodes are kernels, which know memory by its address alone. Any other node is of no
  // use any more when the memory that it was made for is freed.
  bool HasOnlyKernels() const;

  // Makes later launches run `operations`, which fit. A launch under way is not affected. False if
  // the driver does not take one of them in its place; that and an error leave the graph good for
  // nothing.
  StatusOr<bool> Update(const OperationEnvironment& environment,
                        const std::vector<Operation>& operations);

  Status Launch(const CudaContext& context, CUstream stream) const {
    return FUSEC_CUDA(context, {}, cuGraphLaunch, executable_.get(), stream);
  }

 private:
  // What the executables share: their nodes name what Update changes.
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
