#include "runtime/src/cuda/cublaslt_abi.h"

#include <gtest/gtest.h>

// This file is empty without the cuBLAS header, since the runtime does not need it.
#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

namespace fusec::runtime::cublaslt {
namespace {

static_assert(sizeof(cublasStatus_t) == sizeof(LtStatus));
static_assert(sizeof(cublasComputeType_t) == 4 && sizeof(cudaDataType_t) == 4);
static_assert(sizeof(cublasOperation_t) == 4 && sizeof(cublasLtEpilogue_t) == 4);
static_assert(sizeof(cublasLtMatmulDescAttributes_t) == 4);
static_assert(sizeof(cublasLtMatrixLayoutAttribute_t) == 4);
static_assert(sizeof(cublasLtMatmulPreferenceAttributes_t) == 4);

static_assert(kSuccess == CUBLAS_STATUS_SUCCESS && kNotSupported == CUBLAS_STATUS_NOT_SUPPORTED);
static_assert(kReal32F == CUDA_R_32F && kReal64F == CUDA_R_64F);
static_assert(kReal16F == CUDA_R_16F && kReal16BF == CUDA_R_16BF);
static_assert(kCompute32F == CUBLAS_COMPUTE_32F && kCompute64F == CUBLAS_COMPUTE_64F);
static_assert(kCompute32FFast16BF == CUBLAS_COMPUTE_32F_FAST_16BF);
static_assert(kCompute32FFastTf32 == CUBLAS_COMPUTE_32F_FAST_TF32);
static_assert(kOperationNone == CUBLAS_OP_N && kOperationTranspose == CUBLAS_OP_T);
static_assert(kDescTransposeA == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(kDescTransposeB == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(kDescEpilogue == CUBLASLT_MATMUL_DESC_EPILOGUE);
static_assert(kDescBiasPointer == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(kLayoutBatchCount == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
static_assert(kLayoutBatchStride == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
static_assert(kPreferenceWorkspaceBytes == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(kPreferenceReductionSchemes == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
static_assert(kPreferenceAlignmentA == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
static_assert(kPreferenceAlignmentB == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
static_assert(kPreferenceAlignmentC == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
static_assert(kPreferenceAlignmentD == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(kConfigInnerShape == CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID);
static_assert(kConfigClusterShape == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID);
static_assert(kReduceInComputeType == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
static_assert(kReduceAny == CUBLASLT_REDUCTION_SCHEME_MASK);
static_assert(kEpilogueDefault == CUBLASLT_EPILOGUE_DEFAULT);
static_assert(kEpilogueRelu == CUBLASLT_EPILOGUE_RELU && kEpilogueBias == CUBLASLT_EPILOGUE_BIAS);
static_assert(kEpilogueReluBias == CUBLASLT_EPILOGUE_RELU_BIAS);
static_assert(kEpilogueGelu == CUBLASLT_EPILOGUE_GELU);
static_assert(kEpilogueGeluBias == CUBLASLT_EPILOGUE_GELU_BIAS);

static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(HeuristicResult) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(HeuristicResult, workspace_bytes) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(HeuristicResult, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(offsetof(HeuristicResult, waves) ==
              offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));

// The parameter lists agree in number and in the size of every parameter.
template <class A, class B>
struct SameShape;
template <class R1, class... P1, class R2, class... P2>
struct SameShape<R1 (*)(P1...), R2 (*)(P2...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(P1) != sizeof...(P2)) return false;
    else return ((sizeof(P1) == sizeof(P2)) && ...) && sizeof(R1) == sizeof(R2);
  }();
};
template <class A, class B>
constexpr bool kSame = SameShape<A, B>::value;

static_assert(kSame<decltype(Functions::create), decltype(&cublasLtCreate)>);
static_assert(kSame<decltype(Functions::destroy), decltype(&cublasLtDestroy)>);
static_assert(kSame<decltype(Functions::desc_create), decltype(&cublasLtMatmulDescCreate)>);
static_assert(kSame<decltype(Functions::desc_destroy), decltype(&cublasLtMatmulDescDestroy)>);
static_assert(kSame<decltype(Functions::desc_set), decltype(&cublasLtMatmulDescSetAttribute)>);
static_assert(kSame<decltype(Functions::layout_create), decltype(&cublasLtMatrixLayoutCreate)>);
static_assert(kSame<decltype(Functions::layout_destroy), decltype(&cublasLtMatrixLayoutDestroy)>);
static_assert(kSame<decltype(Functions::layout_set), decltype(&cublasLtMatrixLayoutSetAttribute)>);
static_assert(
    kSame<decltype(Functions::preference_create), decltype(&cublasLtMatmulPreferenceCreate)>);
static_assert(
    kSame<decltype(Functions::preference_destroy), decltype(&cublasLtMatmulPreferenceDestroy)>);
static_assert(
    kSame<decltype(Functions::preference_set), decltype(&cublasLtMatmulPreferenceSetAttribute)>);
static_assert(kSame<decltype(Functions::heuristic), decltype(&cublasLtMatmulAlgoGetHeuristic)>);
static_assert(kSame<decltype(Functions::algo_check), decltype(&cublasLtMatmulAlgoCheck)>);
static_assert(
    kSame<decltype(Functions::config_get), decltype(&cublasLtMatmulAlgoConfigGetAttribute)>);
static_assert(kSame<decltype(Functions::matmul), decltype(&cublasLtMatmul)>);
static_assert(kSame<decltype(Functions::version), decltype(&cublasLtGetVersion)>);
static_assert(kSame<decltype(Functions::status_string), decltype(&cublasLtGetStatusString)>);

}  // namespace
}  // namespace fusec::runtime::cublaslt
#endif

namespace fusec::runtime::cublaslt {
namespace {

TEST(CublasLtAbi, EpiloguesCombine) {
  EXPECT_EQ(kEpilogueReluBias, kEpilogueRelu | kEpilogueBias);
  EXPECT_EQ(kEpilogueGeluBias, kEpilogueGelu | kEpilogueBias);
  EXPECT_EQ(sizeof(HeuristicResult), 96u);
}

}  // namespace
}  // namespace fusec::runtime::cublaslt
