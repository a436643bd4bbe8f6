#include "runtime/src/cuda/cublaslt.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "runtime/src/artifact/dtype.h"
#include "runtime/src/cuda/nvidia_library.h"

namespace fusec::runtime {
namespace {

using namespace cublaslt;

constexpr char kSoname[] = "libcublasLt.so.13";

struct Types {
  int data, compute, scale;
};

std::optional<Types> TypesOf(fusec_dtype dtype, MatmulPrecision precision) {
  switch (dtype) {
    case FUSEC_F32:
      return Types{kReal32F,
                   precision == MatmulPrecision::kHighest ? kCompute32F
                   : precision == MatmulPrecision::kHigh  ? kCompute32FFastTf32
                                                          : kCompute32FFast16BF,
                   kReal32F};
    case FUSEC_F16:
      return Types{kReal16F, kCompute32F, kReal32F};
    case FUSEC_BF16:
      return Types{kReal16BF, kCompute32F, kReal32F};
    case FUSEC_F64:
      return Types{kReal64F, kCompute64F, kReal64F};
    default:
      return std::nullopt;
  }
}

uint32_t EpilogueOf(bool has_bias, Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return has_bias ? kEpilogueReluBias : kEpilogueRelu;
    case Activation::kGeluTanh:
      return has_bias ? kEpilogueGeluBias : kEpilogueGelu;
    default:
      return has_bias ? kEpilogueBias : kEpilogueDefault;
  }
}

template <class Function>
Status Resolve(void* library, const char* name, Function& function) {
  FUSEC_RT_ASSIGN(void* address, FindSymbol(library, kSoname, name));
  function = reinterpret_cast<Function>(address);
  return {};
}

std::string ProblemText(const MatmulProblem& p) {
  return Text(DtypeName(p.dtype), " [", p.batch, " x ", p.m, " x ", p.k, "] * [", p.k, " x ", p.n,
              "]");
}

}  // namespace

// The descriptors of a product. The library is column-major. A row-major [rows, columns] matrix is
// a column-major [columns, rows] matrix, so D = A B is computed as D^T = B^T A^T: the library's
// first operand is B, its second is A, and its result is n x m. A row-major [k, n] matrix B, read
// column-major, is already B^T ([n, k]); if B is stored transposed ([n, k]), it is read as B ([k,
// n]), and the library is asked to transpose it. The same holds for A. The library's bias has one
// value per row of its result, which is one value per column of D.
struct CublasLt::Descriptors {
  explicit Descriptors(const Functions& functions) : functions(functions) {}
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;
  ~Descriptors() {
    for (MatrixLayout layout : {first, second, result}) {
      if (layout != nullptr) functions.layout_destroy(layout);
    }
    if (desc != nullptr) functions.desc_destroy(desc);
  }
  const Functions& functions;
  MatmulDesc desc = nullptr;
  MatrixLayout first = nullptr, second = nullptr, result = nullptr;
};

MatmulPrecision PrecisionNamed(std::string_view name) {
  return name == "high"     ? MatmulPrecision::kHigh
         : name == "medium" ? MatmulPrecision::kMedium
                            : MatmulPrecision::kHighest;
}

uint32_t AlignmentOf(CUdeviceptr address) {
  const CUdeviceptr lowest_bit = address & (~address + 1);
  return address == 0 ? 256 : static_cast<uint32_t>(std::min<CUdeviceptr>(lowest_bit, 256));
}

bool CublasLt::KnowsActivation(Activation activation, fusec_dtype dtype) {
  return activation == Activation::kNone || activation == Activation::kRelu ||
         (activation == Activation::kGeluTanh && dtype != FUSEC_F64);
}

StatusOr<std::unique_ptr<CublasLt>> CublasLt::Create(const CudaContext& context) {
  std::unique_ptr<CublasLt> library(new CublasLt(context));
  FUSEC_RT_TRY(library->Open());
  return library;
}

Status CublasLt::Open() {
  FUSEC_RT_ASSIGN(void* library, OpenNvidiaLibrary(kSoname, "FUSEC_CUBLASLT"));
  Functions& f = functions_;
  FUSEC_RT_TRY(Resolve(library, "cublasLtCreate", f.create));
  FUSEC_RT_TRY(Resolve(library, "cublasLtDestroy", f.destroy));
  FUSEC_RT_TRY(Resolve(library, "cublasLtMatmulDescCreate", f.desc_create));
  FUSEC_RT_TRY(Resolve(library, "cublasLtMatmulDescDestroy", f.desc_destroy));
  FUSEC_RT_TRY(Resolve(library, "cublasLtMatmulDescSetAttribute", f.desc_set));
  FUSEC_RT_TRY(Resolve(library, "cublasLtMatrixLayoutCreate", f.layout_create));
  FUSEC_RT_TRY(Resolve(library, "cublasLtMatrixLayoutDestroy", f.layout_destroy));
  FUSEC_RT_TRY(Resolve(library, "cublasLtMatrixLayoutSetAttribute", f.layout_set));
  FUSEC_RT_TRY(Resolve(library, "cublasLtMatmulPreferenceCreate", f.preference_create));
  FUSEC_RT_TRY(Resolve(library, "cublasLtMatmulPreferenceDestroy", f.preference_destroy));
  FUSEC_RT_TRY(Resolve(library, "cublasLtMatmulPreferenceSetAttribute", f.preference_set));
  FUSEC_RT_TRY(Resolve(library, "cublasLtMatmulAlgoGetHeuristic", f.heuristic));
  FUSEC_RT_TRY(Resolve(library, "cublasLtMatmulAlgoCheck", f.algo_check));
  FUSEC_RT_TRY(Resolve(library, "cublasLtMatmulAlgoConfigGetAttribute", f.config_get));
  FUSEC_RT_TRY(Resolve(library, "cublasLtMatmul", f.matmul));
  FUSEC_RT_TRY(Resolve(library, "cublasLtGetVersion", f.version));
  FUSEC_RT_TRY(Resolve(library, "cublasLtGetStatusString", f.status_string));
  return Check(f.create(&handle_), "cublasLtCreate", {});
}

CublasLt::~CublasLt() {
  if (handle_ == nullptr) return;
  ScopedContext scope(context_);
  functions_.destroy(handle_);
}

Status CublasLt::Check(cublaslt::LtStatus status, const char* call,
                       std::string_view purpose) const {
  if (status == kSuccess) return {};
  const char* description = functions_.status_string(status);
  return Fail(FUSEC_NO_DEVICE, call, purpose.empty() ? "" : " for ", purpose,
              " failed: ", description == nullptr ? "no description" : description, " (status ",
              status, ", cuBLASLt ", functions_.version(), ")");
}

StatusOr<std::unique_ptr<CublasLt::Descriptors>> CublasLt::Describe(const MatmulProblem& problem,
                                                                    const void* bias) const {
  const std::string purpose = ProblemText(problem);
  const std::optional<Types> types = TypesOf(problem.dtype, problem.precision);
  if (!types) {
    return Fail(FUSEC_BAD_ARTIFACT, "matmul of dtype ", DtypeName(problem.dtype),
                ", expected f32, f16, bf16 or f64");
  }
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  if (std::max({problem.m, problem.n, problem.k, problem.batch}) > kMax) {
    return Fail(FUSEC_BAD_INPUT, "matmul ", purpose, " is too large, each size may be up to ",
                kMax);
  }
  const Functions& f = functions_;
  auto descriptors = std::make_unique<Descriptors>(f);
  FUSEC_RT_TRY(Check(f.desc_create(&descriptors->desc, types->compute, types->scale),
                     "cublasLtMatmulDescCreate", purpose));
  const auto set = [&](int attribute, const auto& value) {
    return Check(f.desc_set(descriptors->desc, attribute, &value, sizeof(value)),
                 "cublasLtMatmulDescSetAttribute", purpose);
  };
  const int32_t first_operation = problem.transpose_b ? kOperationTranspose : kOperationNone;
  const int32_t second_operation = problem.transpose_a ? kOperationTranspose : kOperationNone;
  FUSEC_RT_TRY(set(kDescTransposeA, first_operation));
  FUSEC_RT_TRY(set(kDescTransposeB, second_operation));
  const uint32_t epilogue = EpilogueOf(problem.has_bias, problem.activation);
  FUSEC_RT_TRY(set(kDescEpilogue, epilogue));
  if (problem.has_bias) FUSEC_RT_TRY(set(kDescBiasPointer, bias));

  // `rows` and `columns` as stored row-major; the leading dimension is the length of a stored row.
  const auto layout = [&](MatrixLayout& made, int64_t rows, int64_t columns,
                          int64_t stride) -> Status {
    FUSEC_RT_TRY(Check(f.layout_create(&made, types->data, static_cast<uint64_t>(columns),
                                       static_cast<uint64_t>(rows), columns),
                       "cublasLtMatrixLayoutCreate", purpose));
    if (problem.batch == 1) return {};
    const int32_t count = static_cast<int32_t>(problem.batch);
    FUSEC_RT_TRY(Check(f.layout_set(made, kLayoutBatchCount, &count, sizeof(count)),
                       "cublasLtMatrixLayoutSetAttribute", purpose));
    return Check(f.layout_set(made, kLayoutBatchStride, &stride, sizeof(stride)),
                 "cublasLtMatrixLayoutSetAttribute", purpose);
  };
  const bool ta = problem.transpose_a, tb = problem.transpose_b;
  FUSEC_RT_TRY(layout(descriptors->first, tb ? problem.n : problem.k, tb ? problem.k : problem.n,
                      problem.b_stride));
  FUSEC_RT_TRY(layout(descriptors->second, ta ? problem.k : problem.m, ta ? problem.m : problem.k,
                      problem.a_stride));
  FUSEC_RT_TRY(layout(descriptors->result, problem.m, problem.n, problem.d_stride));
  return descriptors;
}

StatusOr<CublasLt::Proposals> CublasLt::AskHeuristic(const MatmulProblem& problem,
                                                     const Descriptors& descriptors) const {
  const std::string purpose = ProblemText(problem);
  const Functions& f = functions_;
  Preference preference = nullptr;
  FUSEC_RT_TRY(Check(f.preference_create(&preference), "cublasLtMatmulPreferenceCreate", purpose));
  struct Destroy {
    const Functions& functions;
    void operator()(PreferenceOpaque* p) const { functions.preference_destroy(p); }
  };
  const std::unique_ptr<PreferenceOpaque, Destroy> owner(preference, Destroy{f});
  const auto set = [&](int attribute, const auto& value) {
    return Check(f.preference_set(preference, attribute, &value, sizeof(value)),
                 "cublasLtMatmulPreferenceSetAttribute", purpose);
  };
  FUSEC_RT_TRY(set(kPreferenceWorkspaceBytes, uint64_t{kWorkspaceBytes}));
  // If the library splits k, partial sums of 16-bit results must not be added in 16 bits.
  const bool wide = problem.dtype == FUSEC_F32 || problem.dtype == FUSEC_F64;
  FUSEC_RT_TRY(set(kPreferenceReductionSchemes, wide ? kReduceAny : kReduceInComputeType));
  FUSEC_RT_TRY(set(kPreferenceAlignmentA, problem.b_alignment));
  FUSEC_RT_TRY(set(kPreferenceAlignmentB, problem.a_alignment));
  FUSEC_RT_TRY(set(kPreferenceAlignmentC,
                   problem.has_addend ? problem.addend_alignment : problem.d_alignment));
  FUSEC_RT_TRY(set(kPreferenceAlignmentD, problem.d_alignment));

  Proposals found;
  const cublaslt::LtStatus status = f.heuristic(
      handle_, descriptors.desc, descriptors.first, descriptors.second, descriptors.result,
      descriptors.result, preference, std::size(found.results), found.results, &found.count);
  if (status == kNotSupported) return Proposals();
  FUSEC_RT_TRY(Check(status, "cublasLtMatmulAlgoGetHeuristic", purpose));
  Proposals usable;
  for (int i = 0; i < found.count; ++i) {
    const HeuristicResult& result = found.results[i];
    if (result.state == kSuccess && result.workspace_bytes <= kWorkspaceBytes)
      usable.results[usable.count++] = result;
  }
  return usable;
}

std::optional<MatmulPlan> CublasLt::Wanted(const MatmulProblem& problem,
                                           const Descriptors& descriptors) const {
  if (problem.algorithm.library_version != functions_.version()) return std::nullopt;
  Algorithm algorithm;
  std::copy(problem.algorithm.words.begin(), problem.algorithm.words.end(), algorithm.data);
  HeuristicResult result{};
  const cublaslt::LtStatus status =
      functions_.algo_check(handle_, descriptors.desc, descriptors.first, descriptors.second,
                            descriptors.result, descriptors.result, &algorithm, &result);
  if (status != kSuccess || result.workspace_bytes > kWorkspaceBytes) return std::nullopt;
  return MatmulPlan{problem, algorithm, result.workspace_bytes};
}

StatusOr<std::optional<MatmulPlan>> CublasLt::Search(const MatmulProblem& problem) const {
  // The library uses only the alignment of the bias here, so any address with this alignment will
  // do.
  const void* bias = reinterpret_cast<const void*>(uintptr_t{problem.bias_alignment});
  FUSEC_RT_ASSIGN(const auto descriptors, Describe(problem, bias));
  if (auto wanted = Wanted(problem, *descriptors)) return wanted;
  FUSEC_RT_ASSIGN(const Proposals proposals, AskHeuristic(problem, *descriptors));
  if (proposals.count == 0) return std::optional<MatmulPlan>();
  const HeuristicResult& best = proposals.results[0];
  return std::optional<MatmulPlan>(MatmulPlan{problem, best.algorithm, best.workspace_bytes});
}

StatusOr<std::string> CublasLt::ConfigurationOf(const Algorithm& algorithm) const {
  std::string text;
  for (int attribute = 0; attribute <= cublaslt::kConfigClusterShape; ++attribute) {
    uint32_t value = 0;
    size_t written = 0;
    const size_t bytes = attribute < cublaslt::kConfigInnerShape ? 4 : 2;
    FUSEC_RT_TRY(Check(functions_.config_get(&algorithm, attribute, &value, bytes, &written),
                       "cublasLtMatmulAlgoConfigGetAttribute", "an algorithm"));
    text += " " + std::to_string(value);
  }
  return std::to_string(functions_.version()) + text;
}

StatusOr<std::vector<CublasLt::Proposal>> CublasLt::Propose(const MatmulProblem& problem) const {
  const void* bias = reinterpret_cast<const void*>(uintptr_t{problem.bias_alignment});
  FUSEC_RT_ASSIGN(const auto descriptors, Describe(problem, bias));
  FUSEC_RT_ASSIGN(const Proposals proposals, AskHeuristic(problem, *descriptors));
  std::vector<Proposal> proposed;
  for (int i = 0; i < proposals.count; ++i) {
    const Algorithm& algorithm = proposals.results[i].algorithm;
    Proposal& proposal = proposed.emplace_back();
    proposal.algorithm.library_version = functions_.version();
    std::copy(std::begin(algorithm.data), std::end(algorithm.data),
              proposal.algorithm.words.begin());
    FUSEC_RT_ASSIGN(proposal.configuration, ConfigurationOf(algorithm));
  }
  return proposed;
}

StatusOr<std::optional<MatmulPlan>> CublasLt::Plan(const MatmulProblem& problem) {
  std::lock_guard lock(mutex_);
  if (const auto found = plans_.find(problem); found != plans_.end()) return found->second;
  FUSEC_RT_ASSIGN(std::optional<MatmulPlan> plan, Search(problem));
  if (plans_.size() >= kMaxPlans) {
    plans_.erase(plans_by_age_.front());
    plans_by_age_.pop_front();
  }
  plans_.emplace(problem, plan);
  plans_by_age_.push_back(problem);
  return plan;
}

Status CublasLt::Run(const MatmulPlan& plan, const MatmulPointers& pointers, CUdeviceptr workspace,
                     CUstream stream, std::string_view purpose) {
  const auto host = [](CUdeviceptr address) { return reinterpret_cast<void*>(address); };
  FUSEC_RT_ASSIGN(auto descriptors, Describe(plan.problem, host(pointers.bias)));
  const float one_f32 = 1, zero_f32 = 0;
  const double one_f64 = 1, zero_f64 = 0;
  const bool is_f64 = plan.problem.dtype == FUSEC_F64;  // alpha and beta have the scale type
  const void* one = is_f64 ? static_cast<const void*>(&one_f64) : &one_f32;
  const void* zero = is_f64 ? static_cast<const void*>(&zero_f64) : &zero_f32;
  const bool adds = plan.problem.has_addend;
  return Check(functions_.matmul(handle_, descriptors->desc, one, host(pointers.b),
                                 descriptors->first, host(pointers.a), descriptors->second,
                                 adds ? one : zero, host(adds ? pointers.addend : pointers.d),
                                 descriptors->result, host(pointers.d), descriptors->result,
                                 &plan.algorithm, host(workspace), plan.workspace_bytes, stream),
               "cublasLtMatmul", purpose);
}

}  // namespace fusec::runtime
