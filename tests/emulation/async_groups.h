#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace fusec::emulation {

class Block;

// What a thread or a warp has started beside the threads, by Block::Start's numbers, in groups that are closed and waited for in order.
class AsyncGroups {
 public:
  void Add(uint64_t number) { open_.push_back(number); }
  void Close();
  // Ends closed groups until at most `pending` may be running.
  void Await(Block& block, size_t pending);
  // Of all groups.
  std::vector<uint64_t> Running(const Block& block) const;

 private:
  std::vector<uint64_t> open_;
  std::deque<std::vector<uint64_t>> closed_;
};

}  // namespace fusec::emulation
