#include "tests/emulation/async_ops.h"

#include <algorithm>
#include <cstring>

#include "tests/emulation/block.h"

namespace fusec::emulation {
namespace {

constexpr unsigned kBlockShift = 24;  // the bits from here on are the number of a block of the cluster, plus 1

char* PlaceInCluster(Block& block, unsigned address) {
  const unsigned number = address >> kBlockShift;
  if (number == 0 || number > block.cluster().places.size()) block.Complain("an address of no block of the cluster");
  return block.cluster().places[number - 1].shared_memory +
         (int64_t{address & ((1u << kBlockShift) - 1)} - kGivenAddress);
}

void CheckMultiple(Block& block, const char* what, uint64_t number, uint64_t of) {
  if (number % of != 0)
    block.Complain(std::string(what) + " " + std::to_string(number) + " of a copy is not a multiple of " + std::to_string(of));
}

void CopyByThread(Block& block, const PtxCall& call) {
  char* to = block.At(call.Word(0));
  const auto* from = reinterpret_cast<const char*>(call.Bits(1));
  const size_t bytes = call.Word(2), read = call.Word(3);  // the bytes after the first `read` become zeros
  CheckMultiple(block, "the address", call.Word(0), bytes);
  if (read != 0) CheckMultiple(block, "the source", call.Bits(1), bytes);
  block.Spoil(to, bytes);
  block.copies().Add(block.Start([=] {
    if (read != 0) std::memcpy(to, from, read);
    std::memset(to + read, 0, bytes - read);
  }));
}

void CopyInBulk(Block& block, const PtxCall& call) {
  char* to = block.At(call.Word(0));
  const auto* from = reinterpret_cast<const char*>(call.Bits(1));
  const unsigned bytes = call.Word(2), barrier = call.Word(3);
  CheckMultiple(block, "the address", call.Word(0), 16);
  CheckMultiple(block, "the source", call.Bits(1), 16);
  CheckMultiple(block, "the size", bytes, 16);
  block.Spoil(to, bytes);
  block.Start([=, &block] {
    std::memcpy(to, from, bytes);
    block.barriers().CountBytes(barrier, bytes);
  });
}

bool RunBarrier(Block& block, PtxCall& call) {
  TransferBarriers& barriers = block.barriers();
  if (call.Is("mbarrier.init")) {
    barriers.Make(call.Word(0), call.Word(1));
  } else if (call.Is("mbarrier.arrive.expect_tx")) {  // the name of the result comes first
    barriers.Expect(call.Word(1), call.Word(2));
    barriers.Arrive(call.Word(1));
  } else if (call.Is("mbarrier.arrive")) {
    barriers.Arrive(call.Word(1));
  } else if (call.Is("mbarrier.try_wait.parity")) {
    const unsigned address = call.Word(1), parity = call.Word(2);
    block.WaitUntil([&barriers, address, parity] { return barriers.HasEnded(address, parity); }, "an mbarrier");
    call.registers[call.instruction->arguments[0].name] = 1;
  } else if (call.Is("cp.async.mbarrier.arrive.noinc")) {
    const unsigned address = call.Word(0);
    const auto copies = block.copies().Running(block);
    block.Start([&barriers, address] { barriers.Arrive(address); },
                [&block, copies] {
                  return std::all_of(copies.begin(), copies.end(), [&](uint64_t number) { return block.HasEnded(number); });
                });
  } else {
    return false;
  }
  return true;
}

bool RunCluster(Block& block, PtxCall& call) {
  if (call.Is("barrier.cluster.arrive")) {
    return true;  // the wait that follows in the same statement does both
  }
  if (call.Is("barrier.cluster.wait")) {
    block.SyncCluster();
  } else if (call.Is("mapa.shared::cluster")) {
    *call.Place<unsigned>(0) = call.Word(1) | (call.Word(2) + 1) << kBlockShift;
  } else if (call.Is("ld.shared::cluster")) {
    const size_t count = call.count() - 1;
    const char* from = PlaceInCluster(block, call.Word(count));
    for (size_t i = 0; i < count; ++i) std::memcpy(call.Place<float>(i), from + 4 * i, 4);
  } else if (call.Is("st.shared::cluster")) {
    const unsigned bits = call.Word(1);
    std::memcpy(PlaceInCluster(block, call.Word(0)), &bits, 4);
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool RunAsyncOp(Block& block, PtxCall& call) {
  if (RunBarrier(block, call) || RunCluster(block, call)) return true;
  if (call.Is("cp.async.bulk.shared")) {
    CopyInBulk(block, call);
  } else if (call.Is("cp.async.commit_group")) {
    block.copies().Close();
  } else if (call.Is("cp.async.wait_group")) {
    block.copies().Await(block, call.Bits(0));
  } else if (call.Is("cp.async.c")) {
    CopyByThread(block, call);
  } else {
    return false;
  }
  return true;
}

TransferBarriers::State& TransferBarriers::At(unsigned address) {
  const auto found = states_.find(address);
  if (found == states_.end()) block_.Complain("an mbarrier is used that was not made");
  return found->second;
}

void TransferBarriers::Make(unsigned address, unsigned arrivals) {
  if (!states_.try_emplace(address, State{arrivals, arrivals, 0, 0}).second) block_.Complain("an mbarrier is made twice");
}

void TransferBarriers::Expect(unsigned address, unsigned bytes) { At(address).bytes += bytes; }

void TransferBarriers::Arrive(unsigned address) {
  State& state = At(address);
  if (state.missing == 0) block_.Complain("more arrivals at an mbarrier than it was made for");
  --state.missing;
  EndPhase(state);
}

void TransferBarriers::CountBytes(unsigned address, unsigned bytes) {
  State& state = At(address);
  state.bytes -= bytes;
  if (state.bytes < 0) block_.Complain("a copy ends that no mbarrier expects");
  EndPhase(state);
}

void TransferBarriers::EndPhase(State& state) {
  if (state.missing > 0 || state.bytes > 0) return;
  state.missing = state.arrivals;
  ++state.phase;
}

bool TransferBarriers::HasEnded(unsigned address, unsigned parity) { return At(address).phase % 2 != parity; }

}  // namespace fusec::emulation

extern "C" unsigned FusecSharedAddress(const void* place) {
  using namespace fusec::emulation;
  Block& block = Block::Current();
  const int64_t distance = static_cast<const char*>(place) - block.shared_memory();
  if (distance < -(int64_t{1} << 22) || distance >= int64_t{1} << 23) block.Complain("an address that is not in shared memory");
  return static_cast<unsigned>(kGivenAddress + distance);
}
