#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/src/artifact/manifest.h"
#include "runtime/src/artifact/step_sizes.h"

namespace fusec::runtime {

// The algorithms that cuBLASLt proposes for products on one GPU; tuning measures them. The compiler
// includes this header, so it does not include CUDA's headers.
class CublasLtProposals {
 public:
  // FUSEC_NO_DEVICE: there is no such GPU, or the library was not found.
  static StatusOr<std::unique_ptr<CublasLtProposals>> Create(int ordinal);
  ~CublasLtProposals();

  // Up to 8 proposals, the library's best guess first; none if it cannot compute the product with
  // its epilogue. `sizes` are of one matrix, not of a batch. Operands are assumed to be aligned to
  // 16 bytes.
  struct Proposal {
    std::string algorithm;      // of a step, see AlgorithmText
    std::string configuration;  // the same for the same algorithm, see CublasLt::Proposal
  };
  StatusOr<std::vector<Proposal>> For(const Matmul& matmul, const MatmulSizes& sizes,
                                         const std::string& matmul_precision) const;

 private:
  CublasLtProposals() = default;
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace fusec::runtime
