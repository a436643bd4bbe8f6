#pragma once

#include <memory>
#include <string>

#include "runtime/src/cuda/cuda_context.h"
#include "tests/gpu/hand_made_artifact.h"
#include "tests/gpu/session.h"

namespace fusec::runtime {

inline std::unique_ptr<CudaContext> gpu;  // the first GPU
inline std::string native;                // its architecture, "sm_90a"

bool GraphsAreOff();  // whether FUSEC_CUDA_GRAPH=0

// A model sum = a + b for f32[batch, 3], and a run of it. Like the cases below, the run returns what is wrong, or "".
void AddModel(HandMadeArtifact& artifact);
std::string RunAdd(Session& session, int64_t batch, float scale);

std::string ChangingDims();
std::string ChangingBatchCosts();
std::string ChangingClusters();
std::string ChangingProductsKeepsGraphs();
std::string AnyRunsInAnyOrder();
std::string DependentLaunch();
std::string WithoutMachineCode();
std::string DamagedMachineCode();
std::string OtherGpu();
std::string TwoContextsInTwoThreads();
std::string DeviceMemoryInPlace();
std::string HostOutputsAsync();
std::string HostMemoryOfAllKinds();
std::string StagingThatGrows();
std::string PageLockedAsync();
std::string IndexOutOfRange();
std::string LargeWeights();
std::string LoadingSpeed();
std::string ChangingDimsOfMatmuls();
std::string OutOfMemory();
std::string Measure();
std::string FatalError();
std::string BadPointer();

}  // namespace fusec::runtime
