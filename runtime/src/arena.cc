#include "runtime/src/arena.h"

#include <algorithm>

#include "runtime/src/artifact/dtype.h"

namespace fusec::runtime {
namespace {

constexpr int64_t kAlignment = 256;

struct Life {
  int buffer = 0;
  int first = -1, last = -1;  // steps, inclusive
  int64_t bytes = 0;          // rounded up to the alignment
  int64_t offset = 0;
};

std::vector<Life> FindLives(const Manifest& manifest, const Target& target) {
  std::vector<Life> lives(manifest.buffers.size());
  for (int step = 0; step < static_cast<int>(target.steps.size()); ++step) {
    for (const auto* list : {&target.steps[step].inputs, &target.steps[step].outputs}) {
      for (const int buffer : *list) {
        if (lives[buffer].first < 0) lives[buffer].first = step;
        lives[buffer].last = step;
      }
    }
  }
  for (int buffer = 0; buffer < static_cast<int>(lives.size()); ++buffer) {
    lives[buffer].buffer = buffer;
    if (manifest.buffers[buffer].kind != BufferKind::kArena) lives[buffer].first = -1;
  }
  std::erase_if(lives, [](const Life& life) { return life.first < 0; });
  return lives;
}

// The lowest offset at which `life` overlaps no buffer in `placed` that is live at the same time;
// `placed` is sorted by offset.
int64_t FirstFit(const Life& life, const std::vector<Life>& placed) {
  int64_t offset = 0;
  for (const Life& other : placed) {
    if (other.last < life.first || other.first > life.last) continue;
    if (offset + life.bytes <= other.offset) break;
    offset = std::max(offset, other.offset + other.bytes);
  }
  return offset;
}

}  // namespace

StatusOr<ArenaPlan> PackArena(const Manifest& manifest, const Target& target,
                              std::span<const int64_t> buffer_bytes) {
  ArenaPlan plan;
  plan.offsets.assign(manifest.buffers.size(), -1);
  std::vector<Life> lives = FindLives(manifest, target);
  int64_t total = 0;  // bounded, so that no sum of offsets below can overflow
  for (Life& life : lives) {
    const int64_t bytes = buffer_bytes[life.buffer];
    if (__builtin_add_overflow(total, bytes, &total) || total > INT64_MAX / 4) {
      return Fail(FUSEC_BAD_INPUT, "the arena does not fit in memory for these dims");
    }
    total += kAlignment;
    life.bytes = std::max((bytes + kAlignment - 1) / kAlignment, int64_t{1}) * kAlignment;
  }
  std::stable_sort(lives.begin(), lives.end(),
                   [](const Life& a, const Life& b) { return a.bytes > b.bytes; });
  std::vector<Life> placed;
  for (Life& life : lives) {
    life.offset = FirstFit(life, placed);
    plan.offsets[life.buffer] = life.offset;
    plan.bytes = std::max(plan.bytes, life.offset + life.bytes);
    const auto at =
        std::upper_bound(placed.begin(), placed.end(), life.offset,
                         [](int64_t offset, const Life& l) { return offset < l.offset; });
    placed.insert(at, life);
  }
  return plan;
}

StatusOr<std::vector<int64_t>> BufferBytes(const Manifest& manifest,
                                           std::span<const int64_t> symbols) {
  std::vector<int64_t> bytes;
  for (const Buffer& buffer : manifest.buffers) {
    FUSEC_RT_ASSIGN(const int64_t elements, buffer.elements.Evaluate(symbols));
    int64_t size = 0;
    if (elements < 0 || __builtin_mul_overflow(elements, DtypeBytes(buffer.dtype), &size)) {
      return Fail(FUSEC_BAD_INPUT, "buffer \"", buffer.name, "\" would have ", elements,
                  " elements (", buffer.elements.text(), ")");
    }
    bytes.push_back(size);
  }
  return bytes;
}

}  // namespace fusec::runtime
