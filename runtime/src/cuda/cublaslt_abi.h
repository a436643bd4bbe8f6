#pragma once

#include <cstddef>
#include <cstdint>

// The part of cuBLASLt's C interface that the runtime uses, declared here because its header comes
// only with the 421 MB cuBLAS wheel. tests/unit/runtime/cublaslt_abi_test.cc compares every number
// with the header if it is installed. All enums are 32-bit.
namespace fusec::runtime::cublaslt {

using LtStatus = int;
using Handle = struct HandleOpaque*;
using MatmulDesc = struct MatmulDescOpaque*;
using MatrixLayout = struct MatrixLayoutOpaque*;
using Preference = struct PreferenceOpaque*;
using Stream = void*;  // a CUstream

constexpr LtStatus kSuccess = 0;
constexpr LtStatus kNotSupported = 15;

// cudaDataType_t
constexpr int kReal32F = 0, kReal64F = 1, kReal16F = 2, kReal16BF = 14;

// cublasComputeType_t
constexpr int kCompute32F = 68, kCompute64F = 70, kCompute32FFast16BF = 75,
              kCompute32FFastTf32 = 77;

// cublasOperation_t
constexpr int kOperationNone = 0, kOperationTranspose = 1;

// cublasLtMatmulDescAttributes_t, with the type of the value
constexpr int kDescTransposeA = 3;   // int32_t
constexpr int kDescTransposeB = 4;   // int32_t
constexpr int kDescEpilogue = 7;     // uint32_t
constexpr int kDescBiasPointer = 8;  // const void*

// cublasLtMatrixLayoutAttribute_t
constexpr int kLayoutBatchCount = 5;   // int32_t
constexpr int kLayoutBatchStride = 6;  // int64_t, elements

// cublasLtMatmulPreferenceAttributes_t
constexpr int kPreferenceWorkspaceBytes = 1;    // uint64_t
constexpr int kPreferenceReductionSchemes = 3;  // uint32_t
constexpr int kPreferenceAlignmentA = 5;        // uint32_t, bytes; B, C and D follow
constexpr int kPreferenceAlignmentB = 6;
constexpr int kPreferenceAlignmentC = 7;
constexpr int kPreferenceAlignmentD = 8;

// cublasLtMatmulAlgoConfigAttributes_t: 0 to 8, of 4 bytes each, except the last two of 2 bytes
constexpr int kConfigInnerShape = 7, kConfigClusterShape = 8;

// cublasLtReductionScheme_t: where partial sums of a split k are added
constexpr uint32_t kReduceInComputeType = 2, kReduceAny = 7;

// cublasLtEpilogue_t
constexpr uint32_t kEpilogueDefault = 1, kEpilogueRelu = 2, kEpilogueBias = 4,
                   kEpilogueReluBias = 6, kEpilogueGelu = 32, kEpilogueGeluBias = 36;

struct Algorithm {  // cublasLtMatmulAlgo_t
  uint64_t data[8];
};

struct HeuristicResult {  // cublasLtMatmulHeuristicResult_t
  Algorithm algorithm;
  size_t workspace_bytes;
  LtStatus state;
  float waves;
  int reserved[4];
};

struct Functions {
  LtStatus (*create)(Handle* handle);
  LtStatus (*destroy)(Handle handle);
  LtStatus (*desc_create)(MatmulDesc* desc, int compute_type, int scale_type);
  LtStatus (*desc_destroy)(MatmulDesc desc);
  LtStatus (*desc_set)(MatmulDesc desc, int attribute, const void* value, size_t bytes);
  LtStatus (*layout_create)(MatrixLayout* layout, int type, uint64_t rows, uint64_t columns,
                            int64_t leading_dimension);
  LtStatus (*layout_destroy)(MatrixLayout layout);
  LtStatus (*layout_set)(MatrixLayout layout, int attribute, const void* value, size_t bytes);
  LtStatus (*preference_create)(Preference* preference);
  LtStatus (*preference_destroy)(Preference preference);
  LtStatus (*preference_set)(Preference preference, int attribute, const void* value, size_t bytes);
  LtStatus (*heuristic)(Handle handle, MatmulDesc desc, MatrixLayout a, MatrixLayout b,
                        MatrixLayout c, MatrixLayout d, Preference preference, int requested,
                        HeuristicResult results[], int* returned);
  LtStatus (*algo_check)(Handle handle, MatmulDesc desc, MatrixLayout a, MatrixLayout b,
                         MatrixLayout c, MatrixLayout d, const Algorithm* algorithm,
                         HeuristicResult* result);
  LtStatus (*config_get)(const Algorithm* algorithm, int attribute, void* value, size_t bytes,
                         size_t* written);
  LtStatus (*matmul)(Handle handle, MatmulDesc desc, const void* alpha, const void* a,
                     MatrixLayout a_layout, const void* b, MatrixLayout b_layout, const void* beta,
                     const void* c, MatrixLayout c_layout, void* d, MatrixLayout d_layout,
                     const Algorithm* algorithm, void* workspace, size_t workspace_bytes,
                     Stream stream);
  size_t (*version)();
  const char* (*status_string)(LtStatus status);
};

}  // namespace fusec::runtime::cublaslt
