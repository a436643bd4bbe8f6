#pragma once

#include <cstddef>
#include <cstdint>
#include <fusec/fusec.hpp>
#include <string>
#include <vector>

namespace fusec::serving {

// "cpu", or what FUSEC_TEST_DEVICE says: "cuda" on a machine with a GPU.
std::string DeviceUnderTest();

// A DLRM compiled for that device when first asked for, by the program that FUSEC names (else the
// one of this build). FUSEC_TEST_ARTIFACT names an artifact to take instead. The folder goes away
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
