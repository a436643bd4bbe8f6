#pragma once

#include <cstddef>
#include <cstdint>
#include <fusec/fusec.hpp>
#include <memory>
#include <string>
#include <vector>

#include "runtime/src/cuda/cuda_context.h"

namespace fusec::serving {

// "cpu", or what FUSEC_TEST_DEVICE says: "cuda" on a machine with a GPU.
std::string DeviceUnderTest();

// Flags of the compiler that FUSEC_TEST_PLACEMENT ("host" or "device") asks for: where tables lie.
std::string PlacementFlags();

// Runs the program that FUSEC names, else the one of this build, and throws if it fails.
void RunFusec(const std::string& arguments);

// A DLRM compiled for that device when first asked for. FUSEC_TEST_ARTIFACT names an artifact to take instead. The folder goes away
// with the process.
const std::string& ServedArtifact();

// Inputs of one call and what a thread alone gets for them. Requests of different seeds differ in
// every value.
struct Request {
  std::vector<std::vector<std::byte>> inputs;
  std::vector<std::vector<int64_t>> dims;
  std::vector<std::vector<float>> answers;  // by output
};
// For several batches in turn, run one by one on a context of its own.
std::vector<Request> MakeRequests(const Program& program, int count);

void Bind(Context& context, const Request& request);
// Whether these are the request's answers, but for rounding: with the number of threads that share
// the cores, the order in which a product is summed changes.
bool IsAnswer(const Request& request, size_t output, const float* values);

template <class T>
T Value(runtime::StatusOr<T> result) {
  if (!result) throw Exception(result.error().code, result.error().message);
  return *std::move(result);
}
void Check(const runtime::Status& status);

// The GPU under test, kept in use while this lives; null on the CPU.
std::unique_ptr<runtime::CudaContext> OpenGpu();
// Of the GPU's memory, for all processes; 0 on the CPU.
int64_t FreeDeviceBytes(const runtime::CudaContext* gpu);
// Memory of this process in use, in bytes.
int64_t ResidentBytes();
// Sanitizers keep freed memory and shadow what is used, so what is resident then means nothing.
inline constexpr bool kResidentBytesMeanSomething =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    false;
#else
    true;
#endif

}  // namespace fusec::serving
