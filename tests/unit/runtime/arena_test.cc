#include "runtime/src/arena.h"

#include <gtest/gtest.h>

#include <random>

namespace fusec::runtime {
namespace {

struct Plan {
  Manifest manifest;
  Target target;
  std::vector<int64_t> bytes;

  int AddBuffer(int64_t size, BufferKind kind = BufferKind::kArena) {
    manifest.buffers.emplace_back().kind = kind;
    bytes.push_back(size);
    return static_cast<int>(bytes.size()) - 1;
  }
  void AddStep(std::vector<int> inputs, std::vector<int> outputs) {
    Step& step = target.steps.emplace_back();
    step.inputs = std::move(inputs);
    step.outputs = std::move(outputs);
  }
  ArenaPlan Pack() const { return *PackArena(manifest, target, bytes); }
};

TEST(ArenaTest, ReusesWhatIsDead) {
  Plan plan;
  const int x = plan.AddBuffer(1000, BufferKind::kInput);
  const int a = plan.AddBuffer(1000), b = plan.AddBuffer(1000), c = plan.AddBuffer(900);
  const int unused = plan.AddBuffer(5000);
  plan.AddStep({x}, {a});
  plan.AddStep({a}, {b});
  plan.AddStep({b}, {c});
  const ArenaPlan packed = plan.Pack();
  EXPECT_EQ(packed.bytes, 2048);
  EXPECT_EQ(packed.offsets[x], -1);
  EXPECT_EQ(packed.offsets[unused], -1);
  EXPECT_EQ(packed.offsets[a], packed.offsets[c]);
  EXPECT_NE(packed.offsets[a], packed.offsets[b]);
}

TEST(ArenaTest, EmptyAndTooLarge) {
  Plan plan;
  EXPECT_EQ(plan.Pack().bytes, 0);
  const int a = plan.AddBuffer(0), b = plan.AddBuffer(INT64_MAX - 10);
  plan.AddStep({}, {a});
  EXPECT_EQ(plan.Pack().bytes, 256);
  plan.AddStep({a}, {b});
  EXPECT_FALSE(PackArena(plan.manifest, plan.target, plan.bytes));
}

TEST(ArenaTest, LivingBuffersNeverOverlap) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    Plan plan;
    std::vector<std::pair<int, int>> lives;
    const int count = static_cast<int>(random() % 12) + 1;
    for (int i = 0; i < count; ++i) plan.AddBuffer(static_cast<int64_t>(random() % 3000));
    for (int i = 0; i < count; ++i) {
      const int earlier = static_cast<int>(random() % (i + 1));
      plan.AddStep({earlier}, {i});
    }
    for (int i = 0; i < count; ++i) {
      int first = count, last = -1;
      for (int step = 0; step < count; ++step) {
        if (plan.target.steps[step].inputs[0] != i && plan.target.steps[step].outputs[0] != i)
          continue;
        first = std::min(first, step);
        last = std::max(last, step);
      }
      lives.emplace_back(first, last);
    }
    const ArenaPlan packed = plan.Pack();
    for (int i = 0; i < count; ++i) {
      EXPECT_EQ(packed.offsets[i] % 256, 0);
      EXPECT_LE(packed.offsets[i] + plan.bytes[i], packed.bytes);
      for (int j = 0; j < i; ++j) {
        const bool both_alive =
            lives[i].first <= lives[j].second && lives[j].first <= lives[i].second;
        const bool apart = packed.offsets[i] + plan.bytes[i] <= packed.offsets[j] ||
                           packed.offsets[j] + plan.bytes[j] <= packed.offsets[i];
        EXPECT_TRUE(!both_alive || apart) << i << " " << j;
      }
    }
  }
}

}  // namespace
}  // namespace fusec::runtime
