// The time until a process gives its first answer, without the time in which the driver creates its context. Run this test alone
// (--gtest_filter='Start.*'), since only the first start in a process counts.
#include <gtest/gtest.h>

#include <chrono>

#include "tests/serving/served_model.h"

namespace fusec::serving {
namespace {

using Clock = std::chrono::steady_clock;

double Milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

TEST(Start, TheFirstAnswerComesSoon) {
  ServedArtifact();
  const auto begin = Clock::now();
  const auto gpu = OpenGpu();
  const auto opened = Clock::now();
  const Program program(ServedArtifact(), DeviceUnderTest().c_str());
  const auto loaded = Clock::now();
  const std::vector<Request> requests = MakeRequests(program, 1);
  const auto answered = Clock::now();
  std::printf("context %.1f ms, load %.1f ms, first answer %.1f ms\n", Milliseconds(opened - begin),
              Milliseconds(loaded - opened), Milliseconds(answered - loaded));
  EXPECT_EQ(requests[0].answers.size(), 1u);
  // CPUs in tests are shared with others; a GPU's machine is not.
  if (gpu) {
    EXPECT_LT(Milliseconds(answered - opened), 150);
  }
}

}  // namespace
}  // namespace fusec::serving
