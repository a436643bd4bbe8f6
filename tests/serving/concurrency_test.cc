// Ten threads on one program, each with contexts of its own (and on a GPU a stream of its own), get the same answers as a single thread,
// and memory does not grow.
//
//   FUSEC_TEST_SECONDS=60                       instead of two seconds
//   FUSEC_TEST_DEVICE=cuda                      on the first GPU, device memory in place as well
//   FUSEC_TEST_MEMORY=0                         memory is not judged: for tools that take some
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <thread>

#include "tests/serving/served_model.h"

namespace fusec::serving {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kThreads = 10;
constexpr int kRequests = 60;         // more than threads, so that neighbours seldom run the same
constexpr int kRunsOfAContext = 100;  // then a new context replaces it

double Seconds() {
  const char* text = std::getenv("FUSEC_TEST_SECONDS");
  return text ? std::atof(text) : 2;
}

bool MemoryIsJudged() {
  const char* text = std::getenv("FUSEC_TEST_MEMORY");
  return !text || std::string_view(text) != "0";
}

// A stream of the caller, and room on the GPU for the inputs and outputs of any request.
class OwnStream {
 public:
  OwnStream(const runtime::CudaContext& gpu, const std::vector<Request>& requests)
      : gpu_(gpu), scope_(gpu), stream_(Value(runtime::CreateStream(gpu))) {
    for (size_t i = 0; i < requests[0].inputs.size(); ++i) {
      size_t most = 0;
      for (const Request& request : requests) most = std::max(most, request.inputs[i].size());
      inputs_.push_back(Value(runtime::AllocateDevice(gpu, most, "inputs of a thread")));
    }
    for (size_t i = 0; i < requests[0].answers.size(); ++i) {
      size_t most = 0;
      for (const Request& request : requests) most = std::max(most, request.answers[i].size() * 4);
      outputs_.push_back(Value(runtime::AllocateDevice(gpu, most, "outputs of a thread")));
    }
  }

  void* get() const { return stream_.get(); }

  // Enqueues everything on the stream in order: copies to the GPU, the run, copies back.
  void RunInPlace(Context& context, const Request& request,
                  std::vector<std::vector<float>>& results) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const std::vector<std::byte>& bytes = request.inputs[i];
      Check(FUSEC_CUDA(gpu_, "an input", cuMemcpyHtoDAsync, inputs_[i].get(), bytes.data(),
                       bytes.size(), stream_.get()));
      context.BindInput(static_cast<int>(i), Pointer(inputs_[i]), request.dims[i], true);
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      context.BindOutput(static_cast<int>(i), Pointer(outputs_[i]), results[i].size() * 4, true);
    }
    context.RunAsync(get());
    for (size_t i = 0; i < outputs_.size(); ++i) {
      Check(FUSEC_CUDA(gpu_, "an output", cuMemcpyDtoHAsync, results[i].data(), outputs_[i].get(),
                       results[i].size() * 4, stream_.get()));
    }
    context.Synchronize();
    Check(FUSEC_CUDA(gpu_, "the stream", cuStreamSynchronize, stream_.get()));
  }

 private:
  static void* Pointer(const runtime::DeviceMemory& memory) {
    return reinterpret_cast<void*>(memory.get());
  }
  const runtime::CudaContext& gpu_;
  runtime::ScopedContext scope_;
  runtime::CudaStream stream_;
  std::vector<runtime::DeviceMemory> inputs_, outputs_;
};

// Runs asynchronously into memory of the caller; on the CPU there is no stream.
void RunAsync(Context& context, const Request& request, void* stream,
              std::vector<std::vector<float>>& results) {
  Bind(context, request);
  for (size_t i = 0; i < results.size(); ++i) {
    context.BindOutput(static_cast<int>(i), results[i].data(), results[i].size() * 4);
  }
  context.RunAsync(stream);
  context.Synchronize();
}

void RunAndKeep(Context& context, const Request& request,
                std::vector<std::vector<float>>& results) {
  Bind(context, request);
  for (size_t i = 0; i < results.size(); ++i) context.BindOutput(static_cast<int>(i), nullptr, 0);
  context.Run();
  for (size_t i = 0; i < results.size(); ++i) {
    const auto values = context.Output<float>(static_cast<int>(i));
    results[i].assign(values.begin(), values.end());
  }
}

class Concurrency : public testing::Test {
 protected:
  // Every thread goes through the requests, beginning with a different one, until the time is over.
  void Serve(int thread, Clock::time_point end) {
    std::optional<OwnStream> stream;
    if (gpu_) stream.emplace(*gpu_, requests_);
    std::optional<Context> context;
    for (int run = 0; Clock::now() < end; ++run) {
      if (run % kRunsOfAContext == 0) context.emplace(program_);
      const Request& request = requests_[static_cast<size_t>(7 * thread + run) % kRequests];
      std::vector<std::vector<float>> results;
      for (const auto& answer : request.answers) results.emplace_back(answer.size(), -1.0f);
      switch ((thread + run) % (stream ? 3 : 2)) {
        case 0:
          RunAndKeep(*context, request, results);
          break;
        case 1:
          RunAsync(*context, request, stream ? stream->get() : nullptr, results);
          break;
        default:
          stream->RunInPlace(*context, request, results);
      }
      ++runs_;
      for (size_t i = 0; i < results.size(); ++i) {
        if (!IsAnswer(request, i, results[i].data())) ++wrong_;
      }
    }
  }

  void Hammer(double seconds) {
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(seconds));
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([this, thread, end] {
        try {
          Serve(thread, end);
        } catch (const std::exception& exception) {
          ADD_FAILURE() << "thread " << thread << ": " << exception.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  const std::unique_ptr<runtime::CudaContext> gpu_ = OpenGpu();
  Program program_{ServedArtifact(), DeviceUnderTest().c_str()};
  std::vector<Request> requests_ = MakeRequests(program_, kRequests);
  std::atomic<int64_t> runs_ = 0, wrong_ = 0;
};

// Memory may grow until every thread has run every size, and in single rounds later: new threads use other heaps of the allocator, and the
// driver allocates a block for its pools. A leak shows in all rounds, so the smallest growth of any round is judged. No device memory may
// be lost: contexts that do not free what they hold there (an arena alone is a MiB or more) would show in every round, since each round
// begins with a new context in each thread, and that is more than the 2 MiB in which the driver allocates memory.
TEST_F(Concurrency, TenThreadsGetTheAnswersOfOne) {
  constexpr int kRounds = 4;
  Hammer(Seconds() / kRounds);
  int64_t host_grown = INT64_MAX, device_grown = INT64_MAX;
  for (int round = 1; round < kRounds; ++round) {
    const int64_t resident = ResidentBytes(), device_free = FreeDeviceBytes(gpu_.get());
    Hammer(Seconds() / kRounds);
    const int64_t host = ResidentBytes() - resident;
    const int64_t device = device_free - FreeDeviceBytes(gpu_.get());
    std::printf("round %d: memory grew by %lld KiB, of the device by %lld KiB\n", round,
                static_cast<long long>(host / 1024), static_cast<long long>(device / 1024));
    std::fflush(stdout);
    host_grown = std::min(host_grown, host);
    device_grown = std::min(device_grown, device);
  }
  EXPECT_EQ(wrong_, 0);
  EXPECT_GT(runs_, kThreads);
  std::printf("%lld runs on %s\n", static_cast<long long>(runs_), program_.device_name().c_str());
  if (!MemoryIsJudged()) return;
  // A leak of 1 KiB a run would be megabytes.
  if (kResidentBytesMeanSomething) {
    EXPECT_LT(host_grown, int64_t{1} << 20);
  }
  EXPECT_LE(device_grown, 0);
}

}  // namespace
}  // namespace fusec::serving
