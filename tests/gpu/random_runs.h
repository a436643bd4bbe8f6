#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/src/context.h"
#include "runtime/src/cuda/cuda_context.h"
#include "runtime/src/program.h"
#include "tests/gpu/hand_made_artifact.h"

namespace fusec::runtime {

// Random runs of one program in several contexts, with many runs in flight: with any batch, with any kind of memory for each input and
// output (fresh, recently used, or at an address that was freed), on any stream, waited for at once or later. A context must give right
// answers whatever it ran before.
class RandomRuns {
 public:
  // y = x + z + weights[i % 4] and twice = 2 y for f32[batch], computed by the kernels k_few (for up to 8 rows; its 8 blocks form a
  // cluster, with one row each), k_many and k_copy, which reads y from the arena.
  static void AddModel(HandMadeArtifact& artifact);
  static constexpr float kWeights[] = {10, 20, 30, 40};

  // `calls_runtime` is called when a call of the runtime begins, which may then fail for lack of memory, and when it ends.
  RandomRuns(Program& program, const CudaContext& gpu, unsigned seed,
             std::function<void(bool)> calls_runtime = nullptr);
  ~RandomRuns();

  // Takes `steps` random steps; returns what is wrong with the first wrong answer, or "".
  std::string Take(int steps);
  // The number of runs so far whose answers were right.
  int right_runs() const { return right_runs_; }

 private:
  enum class Kind { kPageable, kOfTheProgram, kPageLocked, kDevice };
  static constexpr size_t kKinds = 4;
  class Floats;
  struct Run {
    int64_t batch = 0;
    size_t x_from = 0, z_from = 0;
    std::vector<Floats*> memory, outputs;  // an output is null if the context keeps it
  };
  struct Client {
    std::unique_ptr<Context> context;
    std::vector<Run> runs;  // runs that were not waited for yet
  };

  bool OneIn(int n) { return std::uniform_int_distribution(1, n)(random_) == 1; }
  size_t Below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  int64_t Batch();
  Floats* TakeMemory(Kind kind, int64_t batch);
  Status Step();
  // Whether a call of the runtime succeeds: false if memory is lacking; any other failure is an error.
  template <class Call>
  StatusOr<bool> Succeeds(const Call& call);
  Status Bind(Client& client, Run& run, bool may_keep);
  Status Wait(Client& client);
  Status CheckAnswers(const Client& client, const Run& run) const;

  Program& program_;
  const CudaContext& gpu_;
  const ScopedContext scope_;
  const std::function<void(bool)> calls_runtime_;
  std::mt19937 random_;
  int right_runs_ = 0;
  std::vector<CudaStream> streams_;
  std::vector<std::unique_ptr<Floats>> memory_;
  std::vector<Client> clients_;
};

}  // namespace fusec::runtime
