#include "runtime/src/cuda/cublaslt_proposals.h"

#include "runtime/src/cuda/cublaslt.h"

namespace fusec::runtime {

struct CublasLtProposals::Library {
  std::unique_ptr<CudaContext> context;
  std::unique_ptr<CublasLt> cublaslt;
};

CublasLtProposals::~CublasLtProposals() = default;

StatusOr<std::unique_ptr<CublasLtProposals>> CublasLtProposals::Create(int ordinal) {
  std::unique_ptr<CublasLtProposals> proposals(new CublasLtProposals);
  proposals->library_ = std::make_unique<Library>();
  Library& library = *proposals->library_;
  FUSEC_RT_ASSIGN(library.context, CudaContext::Create(ordinal));
  const ScopedContext scope(*library.context);
  FUSEC_RT_ASSIGN(library.cublaslt, CublasLt::Create(*library.context));
  return proposals;
}

StatusOr<std::vector<CublasLtProposals::Proposal>> CublasLtProposals::For(
    const Matmul& matmul, const MatmulSizes& sizes, const std::string& matmul_precision) const {
  std::vector<Proposal> proposals;
  if (sizes.IsEmpty() || sizes.k == 0 || sizes.batch != 1 ||
      !CublasLt::KnowsActivation(matmul.activation, matmul.dtype)) {
    return proposals;
  }
  MatmulProblem problem;  // its alignments are 16 bytes
  problem.dtype = matmul.dtype;
  problem.precision = PrecisionNamed(matmul_precision);
  problem.m = sizes.m;
  problem.n = sizes.n;
  problem.k = sizes.k;
  problem.transpose_a = matmul.transpose_a;
  problem.transpose_b = matmul.transpose_b;
  problem.has_bias = matmul.bias >= 0;
  problem.has_addend = matmul.addend >= 0;
  problem.activation = matmul.activation;
  const ScopedContext scope(*library_->context);
  FUSEC_RT_ASSIGN(const auto proposed, library_->cublaslt->Propose(problem));
  for (const CublasLt::Proposal& proposal : proposed)
    proposals.push_back({AlgorithmText(proposal.algorithm), proposal.configuration});
  return proposals;
}

}  // namespace fusec::runtime
