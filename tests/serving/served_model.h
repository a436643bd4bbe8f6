#pragma once

#include <cstddef>
#include <cstdint>
#include <fusec/fusec.hpp>
#include <memory>
#include <string>
#include <vector>

#include "runtime/src/cuda/cuda_context.h"

namespace fusec::serving {

// The value of FUSEC_TEST_DEVICE ("cuda" on a machine with a GPU), or "cpu".
std::string DeviceUnderTest();

// The compiler flags for FUSEC_TEST_PLACEMENT ("host" or "device"), which says where tables lie.
std::string PlacementFlags();

// Runs the program that the environment variable FUSEC names, or else the program of this build; throws if it fails.
void RunFusec(const std::string& arguments);

// A DLRM, which the first call compiles for that device. FUSEC_TEST_ARTIFACT names an artifact to use instead. The folder is removed when
// the process ends.
const std::string& ServedArtifact();

// The inputs of a call, and the answers that a single thread gets for them. Requests with different seeds differ in every value.
struct Request {
  std::vector<std::vector<std::byte>> inputs;
  std::vector<std::vector<int64_t>> dims;
  std::vector<std::vector<float>> answers;  // by output
};
// Makes requests for several batches in turn; the answers are computed one by one on a separate context.
std::vector<Request> MakeRequests(const Program& program, int count);

void Bind(Context& context, const Request& request);
// Whether these are the request's answers, up to rounding: the order of summation in products depends on the number of threads that share
// the cores.
bool IsAnswer(const Request& request, size_t output, const float* values);

template <class T>
T Value(runtime::StatusOr<T> result) {
  if (!result) throw Exception(result.error().code, result.error().message);
  return *std::move(result);
}
void Check(const runtime::Status& status);

// The GPU under test, kept in use while this lives; null on the CPU.
std::unique_ptr<runtime::CudaContext> OpenGpu();
// The free bytes of GPU memory, over all processes; 0 on the CPU.
int64_t FreeDeviceBytes(const runtime::CudaContext* gpu);
// The resident memory of this process, in bytes.
int64_t ResidentBytes();
// False with sanitizers, which keep freed memory and add shadow memory.
inline constexpr bool kResidentBytesMeanSomething =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    false;
#else
    true;
#endif

}  // namespace fusec::serving
