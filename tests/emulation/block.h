#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "compiler/support/adt.h"
#include "tests/emulation/async_groups.h"
#include "tests/emulation/calls.h"

namespace fusec::emulation {

struct PtxCall;          // ptx.h
class AsyncProducts;     // matrix_ops.h
class TransferBarriers;  // async_ops.h

// Addresses of shared memory are 32 bits. What is given at launch begins at kGivenAddress, a multiple of what tensor cores' addresses
// wrap at; variables of kernels have other addresses, by their distance from it.
constexpr unsigned kGivenAddress = 1u << 22, kGivenBytes = 227 << 10;

// The blocks that run at the same time on threads of the operating system of their own, and know each other's shared memory.
struct Cluster {
  explicit Cluster(int blocks) : places(static_cast<size_t>(blocks)) {}
  // Called when all threads of a block have arrived at the cluster's barrier.
  void Arrive();
  // Waits until so many phases of the barrier have ended, or a block has failed.
  void Await(uint64_t phases);
  uint64_t PhasesEnded();
  // Notes why a block cannot run on: then none does.
  void Fail(const std::string& complaint);
  bool has_failed();

  std::vector<PlacesOfBlock> places;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t arrived_ = 0;
  uint64_t phases_ended_ = 0;
  bool has_failed_ = false;
};

// What the first block had to complain about that could not run since the last call, or "".
std::string TakeComplaint();

// A block that runs: each of its threads is a fiber, and the order in which they go on is hostile, which a seed decides. What runs
// beside the threads (copies, products) ends at any time between its start and the wait for it, so that a wait that is missing is
// seen in the results.
class Block {
 public:
  // Runs it on the calling thread of the operating system.
  static void Run(const EmulatedLaunch& launch, unsigned number, unsigned in_cluster, Cluster& cluster, uint64_t seed);
  // The one that runs on it.
  static Block& Current();

  // ---- For the thread that runs ----
  unsigned thread() const { return *places_.thread; }
  // Lets other threads run until it holds. `what` says what is waited for.
  void WaitUntil(std::function<bool()> holds, const char* what);
  // Lets other threads run now, if chance wants it.
  void MayPause();
  void SyncThreads() { Meet(all_, 0, size_); }
  // So many threads wait for each other, whichever they are.
  void SyncSome(unsigned barrier, unsigned threads);
  void SyncWarp();
  void SyncCluster();
  unsigned long long& slot(unsigned thread) { return fibers_[thread].slot; }
  bool has_left(unsigned thread) const { return fibers_[thread].has_left; }
  unsigned size() const { return size_; }
  // Calls `run` with what all threads of the warp have given, once all are here.
  void Together(PtxCall& call, function_ref<void(ArrayRef<PtxCall*>)> run);
  // Ends the block, which does what a GPU would leave open.
  [[noreturn]] void Complain(const std::string& what);

  // ---- What runs beside the threads ----
  // `end` is called once, when `can_end` holds, at any time or by End. Returns its number.
  uint64_t Start(std::function<void()> end, std::function<bool()> can_end = nullptr);
  void End(uint64_t number);
  bool HasEnded(uint64_t number) const { return running_.count(number) == 0; }

  // Of memory whose contents are lost.
  void Spoil(char* memory, size_t bytes) const;
  char* shared_memory() const { return places_.shared_memory; }
  char* At(unsigned address) const { return shared_memory() + (int64_t{address} - kGivenAddress); }
  Cluster& cluster() { return cluster_; }
  AsyncProducts& products() { return *products_; }
  AsyncGroups& copies() { return copies_[thread()]; }  // that the thread has started by cp.async
  TransferBarriers& barriers() { return *barriers_; }

 private:
  struct Fiber {
    void* stack_pointer = nullptr;  // while it does not run
    std::function<bool()> may_run;  // none: it may
    const char* waits_for = "";
    unsigned long long slot = 0;
    bool has_left = false;
  };
  struct Barrier {
    unsigned waiting = 0;
    uint64_t phases_ended = 0;
  };
  struct Gathering {
    std::vector<PtxCall*> calls;
    uint64_t number = 0;
  };
  struct Async {
    std::function<void()> end;
    std::function<bool()> can_end;
  };
  enum class Order { kRandom, kFirst, kLast };

  Block(const EmulatedLaunch& launch, unsigned number, unsigned in_cluster, Cluster& cluster, uint64_t seed);
  ~Block();
  static void FiberMain();
  void RunThreads();
  void Step();
  void Resume(unsigned thread);
  int ChooseThread();
  bool EndSomething();
  void Fail(const std::string& what);
  void Leave();
  void Meet(Barrier& barrier, unsigned first, unsigned last);
  void Open(Barrier& barrier, unsigned first, unsigned last);
  bool Chance(unsigned one_of) { return random_() % one_of == 0; }

  const EmulatedLaunch& launch_;
  Cluster& cluster_;
  PlacesOfBlock places_;
  unsigned number_, size_;
  unsigned left_ = 0;  // threads that have left
  bool is_scheduling_ = true;
  std::mt19937_64 random_;
  Order order_;
  unsigned haste_;
  int spoiled_byte_;
  void* scheduler_ = nullptr;  // its stack pointer while a fiber runs
  std::vector<Fiber> fibers_;
  Barrier all_, some_[16];  // of the block's threads; of some of them, by number (0 is of all)
  std::vector<Barrier> warps_;
  std::vector<Gathering> gatherings_;  // by warp
  unsigned at_cluster_ = 0;            // threads that wait for the cluster
  uint64_t cluster_phases_ = 0;
  std::map<uint64_t, Async> running_;
  uint64_t started_ = 0;
  std::unique_ptr<AsyncProducts> products_;
  std::vector<AsyncGroups> copies_;  // by thread
  std::unique_ptr<TransferBarriers> barriers_;
};

}  // namespace fusec::emulation
