#pragma once

#include <compare>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/src/artifact/manifest.h"
#include "runtime/src/cuda/cublaslt_abi.h"
#include "runtime/src/cuda/cuda_context.h"

namespace fusec::runtime {

enum class MatmulPrecision { kHighest, kHigh, kMedium };  // of f32 products: f32, TF32, bf16
MatmulPrecision PrecisionNamed(std::string_view name);    // "highest", "high", "medium"

// A product d[b] = activation(op(a[b]) * op(b[b]) + bias + addend[b]) of row-major matrices, as far
// as the choice of an algorithm depends on it. The addend lies as d does. Strides count elements,
// alignments bytes (the largest power of two up to 256 that divides the address).
struct MatmulProblem {
  fusec_dtype dtype = FUSEC_F32;
  MatmulPrecision precision = MatmulPrecision::kHighest;
  int64_t m = 0, n = 0, k = 0, batch = 1;
  int64_t a_stride = 0, b_stride = 0, d_stride = 0;
  bool transpose_a = false, transpose_b = false;
  bool has_bias = false, has_addend = false;
  Activation activation = Activation::kNone;
  uint32_t a_alignment = 16, b_alignment = 16, d_alignment = 16, bias_alignment = 16;
  uint32_t addend_alignment = 16;
  MatmulAlgorithm algorithm;  // wanted, if it is of this library and can make the product

  auto operator<=>(const MatmulProblem&) const = default;
};

struct MatmulPlan {
  MatmulProblem problem;
  cublaslt::Algorithm algorithm;
  size_t workspace_bytes = 0;
};

struct MatmulPointers {
  CUdeviceptr a = 0, b = 0, d = 0, bias = 0, addend = 0;
  bool operator==(const MatmulPointers&) const = default;
};

uint32_t AlignmentOf(CUdeviceptr address);

// cuBLASLt for one GPU, opened when it is made. Usable from several threads; the context must be
// current.
class CublasLt {
 public:
  static constexpr size_t kWorkspaceBytes = size_t{32}
                                            << 20;  // one per executor, at a multiple of 256

  // FUSEC_NO_DEVICE, naming what was tried, where the library is missing.
  static StatusOr<std::unique_ptr<CublasLt>> Create(const CudaContext& context);
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;
  ~CublasLt();

  // Whether the library can be asked for this activation at all: it knows none, ReLU and the tanh
  // form of GELU, the last only to float's accuracy, which is too little for f64.
  static bool KnowsActivation(Activation activation, fusec_dtype dtype);

  // What the problem wants, or the library's best guess for it, kept for the next call with an
  // equal one; nothing if it has no algorithm for it, as may be for an epilogue. m, n, k and batch
  // are at least 1.
  StatusOr<std::optional<MatmulPlan>> Plan(const MatmulProblem& problem);

  // What the library proposes for the problem, its best guess first, at most 8. The configuration
  // is what the library says of an algorithm, the same wherever it is proposed, which the words
  // need not be.
  struct Proposal {
    MatmulAlgorithm algorithm;
    std::string configuration;  // its version, then the attributes in the order of their numbers
  };
  StatusOr<std::vector<Proposal>> Propose(const MatmulProblem& problem) const;

  // Enqueues the product. `workspace` has kWorkspaceBytes.
  Status Run(const MatmulPlan& plan, const MatmulPointers& pointers, CUdeviceptr workspace,
             CUstream stream, std::string_view purpose);

 private:
  explicit CublasLt(const CudaContext& context) : context_(context) {}
  Status Open();
  Status Check(cublaslt::LtStatus status, const char* call, std::string_view purpose) const;
  StatusOr<std::optional<MatmulPlan>> Search(const MatmulProblem& problem) const;

  struct Descriptors;
  struct Proposals {
    // Zeros where the library writes nothing: an algorithm's words are part of artifacts.
    cublaslt::HeuristicResult results[8] = {};
    int count = 0;
  };
  StatusOr<std::string> ConfigurationOf(const cublaslt::Algorithm& algorithm) const;
  StatusOr<Proposals> AskHeuristic(const MatmulProblem& problem,
                                   const Descriptors& descriptors) const;
  // The algorithm that the problem wants, if the library takes it.
  std::optional<MatmulPlan> Wanted(const MatmulProblem& problem,
                                   const Descriptors& descriptors) const;
  StatusOr<std::unique_ptr<Descriptors>> Describe(const MatmulProblem& problem,
                                                  const void* bias) const;

  const CudaContext& context_;
  cublaslt::Functions functions_{};
  cublaslt::Handle handle_ = nullptr;

  static constexpr size_t kMaxPlans = 256;
  std::mutex mutex_;
  std::map<MatmulProblem, std::optional<MatmulPlan>> plans_;
  std::list<MatmulProblem> plans_by_age_;  // oldest first
};

}  // namespace fusec::runtime
