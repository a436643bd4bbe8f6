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

enum class MatmulPrecision { kHighest, kHigh, kMedium };  // for f32 products: f32, TF32, bf16
MatmulPrecision PrecisionNamed(std::string_view name);    // "highest", "high", "medium"

// Those properties of a product d[b] = activation(op(a[b]) * op(b[b]) + bias + addend[b]) of
// row-major matrices on which the choice of an algorithm depends. The addend has the layout of d.
// Strides are in elements, alignments in bytes (the largest power of two up to 256 that divides the
// address).
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
  MatmulAlgorithm algorithm;  // preferred, if this version of the library accepts it

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

// cuBLASLt for one GPU; the library is opened by Create. Several threads may use it at the same
// time; the context must be current.
class CublasLt {
 public:
  static constexpr size_t kWorkspaceBytes = size_t{32}
                                            << 20;  // one per executor, at a multiple of 256

  // FUSEC_NO_DEVICE: the library was not found; the error lists the paths that were tried.
  static StatusOr<std::unique_ptr<CublasLt>> Create(const CudaContext& context);
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;
  ~CublasLt();

  // Whether the library has this activation as an epilogue. It has none, ReLU and the tanh form of
  // GELU; the last has only float accuracy, which is not enough for f64.
  static bool KnowsActivation(Activation activation, fusec_dtype dtype);

  // The plan for a problem: its preferred algorithm if possible, otherwise the first that the
  // library proposes. Plans are cached. Returns nothing if the library has no algorithm, for
  // example for an epilogue. m, n, k and batch are at least 1.
  StatusOr<std::optional<MatmulPlan>> Plan(const MatmulProblem& problem);

  // The algorithms that the library proposes for the problem, its best guess first, at most 8. The
  // configuration identifies an algorithm: it is the same in every proposal, while the words of the
  // algorithm may differ.
  struct Proposal {
    MatmulAlgorithm algorithm;
    std::string configuration;  // the library's version and the algorithm's attributes, in order
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
    // Zero-initialized, because the words of an algorithm become part of artifacts.
    cublaslt::HeuristicResult results[8] = {};
    int count = 0;
  };
  StatusOr<std::string> ConfigurationOf(const cublaslt::Algorithm& algorithm) const;
  StatusOr<Proposals> AskHeuristic(const MatmulProblem& problem,
                                   const Descriptors& descriptors) const;
  // The preferred algorithm of the problem, if the library accepts it.
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
