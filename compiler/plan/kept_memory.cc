#include "compiler/plan/kept_memory.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace fusec {

namespace {

constexpr int64_t kAlignment = 16;  // of vectors

// The phases in which a kept value is written or read.
struct Lifetime {
  const Value* value;
  int first, last;
  int64_t begin = 0, end = 0;  // its place, as byte offsets

  void Extend(int phase) {
    first = std::min(first, phase);
    last = std::max(last, phase);
  }
};

class Lifetimes {
 public:
  Lifetimes(const BlockSchedule& schedule, ArrayRef<BlockStage> stages) : stages_(stages) {
    for (const BlockPiece& piece : schedule.pieces) {
      Write(*piece.stage, piece.phase);
      schedule.VisitMadeFrom(piece, [&](const Value* value) { Touch(value, piece.phase, false); });
    }
    for (const BlockStage& stage : stages) {  // copied at the beginning of the kernel
      if (stage.weights) Touch(stage.weights, 0, false);
    }
  }

  std::vector<Lifetime> Take() { return std::move(lifetimes_); }

 private:
  void Write(const BlockStage& stage, int phase) {
    if (stage.kept) Touch(stage.value, phase, true);
    for (const BlockStage::Part& part : stage.parts) Write(StageOf(stages_, part.concat), phase);
  }

  void Touch(const Value* value, int phase, bool adds) {
    const auto found = std::find_if(lifetimes_.begin(), lifetimes_.end(),
                                    [&](const Lifetime& known) { return known.value == value; });
    if (found != lifetimes_.end())
      found->Extend(phase);
    else if (adds || IsWeights(value))
      lifetimes_.push_back({value, phase, phase});
  }

  bool IsWeights(const Value* value) const {
    return std::any_of(stages_.begin(), stages_.end(),
                       [&](const BlockStage& stage) { return stage.weights == value; });
  }

  ArrayRef<BlockStage> stages_;
  std::vector<Lifetime> lifetimes_;
};

}  // namespace

KeptMemory PlaceInMemory(const BlockSchedule& schedule, ArrayRef<BlockStage> stages,
                         function_ref<int64_t(const Value*)> bytes_of) {
  std::vector<Lifetime> lifetimes = Lifetimes(schedule, stages).Take();
  std::stable_sort(lifetimes.begin(), lifetimes.end(),
                   [](const Lifetime& a, const Lifetime& b) { return a.first < b.first; });
  KeptMemory memory;
  std::vector<Lifetime> placed;  // ordered by their places
  for (Lifetime& own : lifetimes) {
    const int64_t bytes = (bytes_of(own.value) + kAlignment - 1) / kAlignment * kAlignment;
    int64_t begin = 0;
    for (const Lifetime& other : placed) {  // finds the first gap that is large enough
      if (other.last < own.first || own.last < other.first || other.begin >= begin + bytes)
        continue;
      begin = std::max(begin, other.end);
    }
    own.begin = begin;
    own.end = begin + bytes;
    memory.places[own.value] = begin;
    memory.bytes = std::max(memory.bytes, own.end);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), own,
                         [](const Lifetime& a, const Lifetime& b) { return a.begin < b.begin; }),
        own);
  }
  return memory;
}

void ShareMultiprocessor(const Gpu& gpu, bool may_have_more_threads, KernelPlan& plan) {
  constexpr int kThreads = 1024, kReservedBytes = 1024;  // wanted in all; reserved per block
  const int blocks = gpu.shared_bytes / (plan.shared_bytes + kReservedBytes);
  if (may_have_more_threads && 2 * blocks * plan.block_size <= kThreads) plan.block_size *= 2;
  plan.blocks_together = std::clamp(kThreads / plan.block_size, 1, std::max(1, blocks));
}

}  // namespace fusec
