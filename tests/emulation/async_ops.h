#pragma once

#include <cstdint>
#include <map>

#include "tests/emulation/ptx.h"

namespace fusec::emulation {

class Block;

// Executes the instructions for asynchronous copies to shared memory, for the barriers that count them, and for clusters. Returns false for
// any other instruction.
bool RunAsyncOp(Block& block, PtxCall& call);

// mbarriers, by their addresses.
class TransferBarriers {
 public:
  explicit TransferBarriers(Block& block) : block_(block) {}
  void Make(unsigned address, unsigned arrivals);
  void Expect(unsigned address, unsigned bytes);
  void Arrive(unsigned address);
  void CountBytes(unsigned address, unsigned bytes);
  // Whether the phase with that parity has ended.
  bool HasEnded(unsigned address, unsigned parity);

 private:
  struct State {
    unsigned arrivals = 0;  // number of arrivals that end a phase
    int64_t missing = 0;
    int64_t bytes = 0;
    unsigned phase = 0;
  };
  State& At(unsigned address);
  void EndPhase(State& state);
  Block& block_;
  std::map<unsigned, State> states_;
};

}  // namespace fusec::emulation
