#include "tests/emulation/async_groups.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tests/emulation/block.h"

namespace fusec::emulation {

void AsyncGroups::Close() { closed_.push_back(std::exchange(open_, {})); }

void AsyncGroups::Await(Block& block, size_t pending) {
  for (; closed_.size() > pending; closed_.pop_front()) {
    for (const uint64_t number : closed_.front()) block.End(number);
  }
}

std::vector<uint64_t> AsyncGroups::Running(const Block& block) const {
  std::vector<uint64_t> running;
  const auto add = [&](const std::vector<uint64_t>& numbers) {
    std::copy_if(numbers.begin(), numbers.end(), std::back_inserter(running),
                 [&](uint64_t number) { return !block.HasEnded(number); });
  };
  for (const auto& group : closed_) add(group);
  add(open_);
  return running;
}

}  // namespace fusec::emulation
