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

// The blocks of a cluster, which run at the same time on one OS thread each and can access each other's shared memory.
class Cluster {
 public:
  explicit Cluster(int blocks) : places(static_cast<size_t>(blocks)), members_(static_cast<size_t>(blocks)) {}
  // Called when all threads of a block have arrived at the cluster's barrier.
  void Arrive();
  uint64_t PhasesEnded();
  // Asks another block to execute `task` between the steps of its threads. Returns false if that block has ended.
  bool Send(size_t block, std::function<void(Block&)> task);
  // Removes and returns the tasks that others have sent to the block.
  std::vector<std::function<void(Block&)>> Take(size_t block);
  // Waits until there is a task for the block, `phases` phases of the barrier have ended, or a block has failed. Returns false if all
  // blocks wait for each other.
  bool Await(size_t block, uint64_t phases);
  // Marks the block as ended; it accepts no more tasks.
  void End(size_t block);
  // Records why a block cannot continue; all other blocks then stop as well.
  void Fail(const std::string& complaint);
  bool has_failed();

  std::vector<PlacesOfBlock> places;

 private:
  struct Member {
    std::vector<std::function<void(Block&)>> tasks;
    bool waits = false, has_ended = false;
    uint64_t phases = 0;  // the number of phases that it waits for
  };
  bool HasNews(const Member& member) const { return !member.tasks.empty() || phases_ended_ >= member.phases; }
  // Whether no block runs, and nothing that they wait for can happen.
  bool IsStuck() const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Member> members_;
  size_t arrived_ = 0;
  uint64_t phases_ended_ = 0;
  bool has_failed_ = false;
};

// The complaint of the first block that could not continue since the last call, or "".
std::string TakeComplaint();

}  // namespace fusec::emulation
