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

// Runs of one program in several contexts, one behind the other and many under way: any batch,
// memory of any kind for each input and output (fresh, of late, or at an address that was freed),
// on any stream, waited for at once or later. A context must give right answers whatever it ran
// before.
class RandomRuns {
 public:
  // y = x + z + weights[i % 4] and twice = 2 y for f32[batch], by kernels k_few (up to 8 rows, its
  // 8 blocks in a cluster, each for a row), k_many and k_copy, in which y lies in the arena before.
  static void AddModel(HandMadeArtifact& artifact);
  static constexpr float kWeights[] = {10, 20, 30, 40};

  // `calls_runtime` hears when calls of the runtime begin, which may fail then for want of memory,
  // and when they end.
  RandomRuns(Program& program, const CudaContext& gpu, unsigned seed,
             std::function<void(bool)> calls_runtime = nullptr);
  ~RandomRuns();

  // Takes so many steps; gives what is wrong with the first answer that is, or nothing.
  std::string Take(int steps);
  // Runs whose answers were right so far.
  int right_runs() const { return right_runs_; }

 private:
  enum class Kind { kPageable, kOfTheProgram, kPageLocked, kDevice };
  static constexpr size_t kKinds = 4;
  class Floats;
  struct Run {
    int64_t batch = 0;
    size_t x_from = 0, z_from = 0;
    std::vector<Floats*> memory, outputs;  // an output is null where the context keeps it
  };
  struct Client {
    std::unique_ptr<Context> context;
    std::vector<Run> runs;  // not yet waited for
  };

  bool OneIn(int n) { return std::uniform_int_distribution(1, n)(random_) == 1; }
  size_t Below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  int64_t Batch();
  Floats* TakeMemory(Kind kind, int64_t batch);
  Status Step();
  // Whether a call of the runtime does: false for want of memory, an error for anything else.
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
