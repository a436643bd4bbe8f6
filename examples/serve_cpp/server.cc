// Serves an artifact of models/dlrm_dot.ts.onnx from several threads. README.md says how it is
// built.
#include <cstdio>
#include <fusec/fusec.hpp>
#include <future>

#include "buffer.h"  // on the GPU, or on the host

constexpr int64_t kBatch = 64, kDense = 13, kTables = 26;
constexpr int kThreads = 4, kRequests = 250;  // kRequests: per thread

struct Request {
  std::vector<float> dense = std::vector<float>(kBatch * kDense);
  std::vector<int64_t> ids = std::vector<int64_t>(kBatch * kTables);
};

// A stand-in for the network.
Request NextRequest() {
  Request request;
  for (int64_t i = 0; i < kBatch * kDense; ++i)
    request.dense[i] = static_cast<float>((i / kDense + i % kDense) % 5) / 4;
  for (int64_t i = 0; i < kBatch * kTables; ++i) request.ids[i] = (i / kTables + i % kTables) % 3;
  return request;
}

// The work of one thread, with its own context and with buffers that stay bound. Returns the first
// score of the last request.
float Serve(const fusec::Program& program) {
  fusec::Context context(program);
  Buffer dense(kBatch * kDense * sizeof(float)), ids(kBatch * kTables * sizeof(int64_t));
  Buffer scores(kBatch * sizeof(float));
  context.BindInput("in0", dense.data(), {kBatch, kDense}, Buffer::kOnDevice);
  context.BindInput("in1", ids.data(), {kBatch, kTables}, Buffer::kOnDevice);
  context.BindOutput("out0", scores.data(), kBatch * sizeof(float), Buffer::kOnDevice);
  std::vector<float> answer(kBatch);
  for (int i = 0; i < kRequests; ++i) {
    const Request request = NextRequest();
    dense.Fill(request.dense.data(), context.stream());
    ids.Fill(request.ids.data(), context.stream());
    context.RunAsync(context.stream());
    context.Synchronize();  // throws if an id lies outside its table
    scores.Read(answer.data());
  }
  return answer[0];
}

int main(int count, char** arguments) try {
  if (count != 2) throw std::runtime_error("usage: server ARTIFACT");
  const fusec::Program program(arguments[1], Buffer::kOnDevice ? "cuda" : "cpu");
  std::vector<std::future<float>> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.push_back(std::async(std::launch::async, Serve, std::cref(program)));
  for (auto& thread : threads) std::printf("score %.6f\n", thread.get());
  std::printf("%d requests on %s\n", kThreads * kRequests, program.device_name().c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
