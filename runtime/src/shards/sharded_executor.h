#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/src/context.h"
#include "runtime/src/executor.h"
#include "runtime/src/gate.h"
#include "runtime/src/part_links.h"
#include "runtime/src/program.h"

namespace fusec::runtime {

// An artifact that runs as a step of a sharded one.
struct ProgramPart {
  std::unique_ptr<Program> program;
  const Step* step = nullptr;
  std::vector<int> symbols;  // by symbol of the part: its index in the whole program
};

// The state that all contexts of a sharded program share.
struct ShardedProgram {
  const Artifact& artifact;
  std::vector<ProgramPart> parts;  // by step; the last one computes the outputs
  std::vector<int> ordinals = {};  // by part: its GPU; empty on the CPU
  Gate runs = {};                  // runs are inside while they are enqueued; updates close it
  // Why the parts have weights of two versions, in which case no run may start; else empty.
  std::string mixed_weights = {};
};

// Runs the parts of a sharded program, each in its own context. Tensors that are passed between
// parts are in memory of PartLinks: shards write their results there, and the dense part reads them
// without a copy.
class ShardedExecutor : public Executor {
 public:
  static StatusOr<std::unique_ptr<ShardedExecutor>> Create(ShardedProgram& program);
  ~ShardedExecutor() override;

  Status Run(const RunBindings& bindings) override;
  Status RunAsync(const RunBindings& bindings, void* stream) override;
  Status Synchronize() override;
  void FinishEarlier() override;
  StatusOr<std::vector<double>> MeasureRuns(const RunBindings& bindings, int count) override;
  void* stream() const override { return contexts_.back()->executor().stream(); }
  size_t scratch_bytes() const override;
  // See PartLinks::Measure.
  StatusOr<std::vector<double>> Measure(std::span<const RunBindings> sets, int samples,
                                        int replays);
  // The time of each part alone in microseconds, by step.
  StatusOr<std::vector<double>> MeasureSteps(const RunBindings& bindings);

 private:
  explicit ShardedExecutor(ShardedProgram& program) : program_(program) {}
  Status Bind(const RunBindings& bindings);
  Status BindPart(size_t part, const RunBindings& bindings, std::byte* arena);
  StatusOr<TensorBinding> Find(size_t part, int buffer, const RunBindings& bindings,
                               std::byte* arena) const;
  Status Start(const RunBindings& bindings, void* stream);

  ShardedProgram& program_;
  std::unique_ptr<PartLinks> links_;
  std::vector<std::unique_ptr<Context>> contexts_;  // by part; destroyed before links_
  int64_t arena_bytes_ = 0;
  std::byte* arena_ = nullptr;
};

}  // namespace fusec::runtime
