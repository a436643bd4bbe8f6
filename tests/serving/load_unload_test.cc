// A process that loads and unloads artifacts for months does not grow. The sanitized run checks with LeakSanitizer that nothing is leaked;
// on a GPU compute-sanitizer does (FUSEC_TEST_DEVICE=cuda, FUSEC_TEST_ROUNDS=20).
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/serving/served_model.h"

namespace fusec::serving {
namespace {

int Rounds() {
  if (const char* text = std::getenv("FUSEC_TEST_ROUNDS")) return std::atoi(text);
  return kResidentBytesMeanSomething ? 1000 : 50;  // sanitizers find a leak the first time
}

TEST(LoadRunUnload, AThousandTimesLeavesNothingBehind) {
  // Uses one thread; concurrency_test.cc tests threads, for which this test would mostly wait on a busy machine.
  setenv("FUSEC_NUM_THREADS", "1", 1);
  const std::string device = DeviceUnderTest();
  const auto gpu = OpenGpu();
  const std::vector<Request> requests = MakeRequests(Program(ServedArtifact(), device.c_str()), 2);
  const int rounds = Rounds();
  int64_t resident = 0, device_free = 0;
  for (int round = 0; round < rounds; ++round) {
    if (round == rounds / 10) {
      resident = ResidentBytes();
      device_free = FreeDeviceBytes(gpu.get());
    }
    const Request& request = requests[static_cast<size_t>(round) % requests.size()];
    const Program program(ServedArtifact(), device.c_str());
    Context context(program);
    Bind(context, request);
    context.Run();
    ASSERT_TRUE(IsAnswer(request, 0, context.Output<float>(0).data())) << round;
  }
  unsetenv("FUSEC_NUM_THREADS");
  const int64_t grown = ResidentBytes() - resident;
  std::printf("memory grew by %lld KiB\n", static_cast<long long>(grown / 1024));
  // 900 times what a program owns, its manifest alone, would be 100 MB.
  if (kResidentBytesMeanSomething) {
    EXPECT_LT(grown, int64_t{2} << 20);
  }
  // The driver itself (580) keeps some 400 bytes of each unloaded module that was asked for a kernel,
  // and takes them 2 MiB at a time; what a program has on the GPU would be thousands of times more.
  constexpr int64_t kDriverBytes = 4096, kPiece = int64_t{2} << 20;
  EXPECT_LE(device_free - FreeDeviceBytes(gpu.get()), rounds * kDriverBytes + kPiece);
}

}  // namespace
}  // namespace fusec::serving
