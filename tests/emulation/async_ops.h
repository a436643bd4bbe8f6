#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "tests/emulation/ptx.h"

namespace fusec::emulation {

class Block;

// Copies to shared memory that run beside the threads, barriers that count them, and clusters. Whether the instruction is one.
bool RunAsyncOp(Block& block, PtxCall& call);

// mbarriers, by their addresses.
class TransferBarriers {
 public:
  explicit TransferBarriers(Block& block) : block_(block) {}
  void Make(unsigned address, unsigned arrivals);
  void Expect(unsigned address, unsigned bytes);
  void Arrive(unsigned address);
  void CountBytes(unsigned address, unsigned bytes);
  // Whether the phase of that parity has ended.
  bool HasEnded(unsigned address, unsigned parity);

 private:
  struct State {
    unsigned arrivals = 0;  // that end a phase
    int64_t missing = 0;
    int64_t bytes = 0;
    unsigned phase = 0;
  };
  State& At(unsigned address);
  void EndPhase(State& state);
  Block& block_;
  std::map<unsigned, State> states_;
};

// What each thread has copied by cp.async.
class ThreadCopies {
 public:
  explicit ThreadCopies(Block& block) : block_(block) {}
  void Start(unsigned thread, uint64_t number) { of_[thread].open.push_back(number); }
  void Close(unsigned thread);
  void Await(unsigned thread, size_t pending);
  // Those of its copies that may not have ended.
  std::vector<uint64_t> Running(unsigned thread);

 private:
  struct Groups {
    std::vector<uint64_t> open;
    std::deque<std::vector<uint64_t>> closed;
  };
  Block& block_;
  std::map<unsigned, Groups> of_;
};

}  // namespace fusec::emulation
