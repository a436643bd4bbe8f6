#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace fusec::emulation {

class Block;

// The asynchronous operations that a thread or a warp has started (by the numbers that Block::Start returned), in groups that are closed
// and waited for in order.
class AsyncGroups {
 public:
  void Add(uint64_t number) { open_.push_back(number); }
  void Close();
  // Completes closed groups until at most `pending` of them may still be running.
  void Await(Block& block, size_t pending);
  // The operations of all groups that are still running.
  std::vector<uint64_t> Running(const Block& block) const;

 private:
  std::vector<uint64_t> open_;
  std::deque<std::vector<uint64_t>> closed_;
};

}  // namespace fusec::emulation
