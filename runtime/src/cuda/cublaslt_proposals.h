#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/src/artifact/manifest.h"
#include "runtime/src/artifact/step_sizes.h"

namespace fusec::runtime {

// The algorithms that cuBLASLt of one GPU proposes for products, to be measured. Free of CUDA's
// headers, for the compiler.
class CublasLtProposals {
 public:
  // FUSEC_NO_DEVICE where there is no such GPU, or no library.
  static StatusOr<std::unique_ptr<CublasLtProposals>> Create(int ordinal);
  ~CublasLtProposals();

  // Up to 8, the library's best guess first; none where it cannot make the product with its
  // epilogue. `sizes` are of one matrix, not of a batch. Memory is taken to start at multiples of 16
  // bytes.
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
