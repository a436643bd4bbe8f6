#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "tests/emulation/calls.h"

namespace fusec::emulation {

class Block;

// The blocks that run at the same time on threads of the operating system of their own, and know each other's shared memory.
class Cluster {
 public:
  explicit Cluster(int blocks) : places(static_cast<size_t>(blocks)), members_(static_cast<size_t>(blocks)) {}
  // Called when all threads of a block have arrived at the cluster's barrier.
  void Arrive();
  uint64_t PhasesEnded();
  // Lets another block do something between the steps of its threads. False: it has ended.
  bool Send(size_t block, std::function<void(Block&)> task);
  // What others have sent to the block and it has not taken yet.
  std::vector<std::function<void(Block&)>> Take(size_t block);
  // Waits until there is a task for the block, so many phases of the barrier have ended, or a block has failed. False: all blocks
  // wait for each other.
  bool Await(size_t block, uint64_t phases);
  // Of a block: takes no tasks any more.
  void End(size_t block);
  // Notes why a block cannot run on: then none does.
  void Fail(const std::string& complaint);
  bool has_failed();

  std::vector<PlacesOfBlock> places;

 private:
  struct Member {
    std::vector<std::function<void(Block&)>> tasks;
    bool waits = false, has_ended = false;
    uint64_t phases = 0;  // that it waits for
  };
  bool HasNews(const Member& member) const { return !member.tasks.empty() || phases_ended_ >= member.phases; }
  // Whether no block runs, and nothing that they wait for will come.
  bool IsStuck() const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Member> members_;
  size_t arrived_ = 0;
  uint64_t phases_ended_ = 0;
  bool has_failed_ = false;
};

// What the first block had to complain about that could not run since the last call, or "".
std::string TakeComplaint();

}  // namespace fusec::emulation
