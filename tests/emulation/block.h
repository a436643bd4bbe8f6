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

// Addresses of shared memory have 32 bits. Dynamic shared memory, which is given at launch, begins at kGivenAddress, a multiple of the size
// at which tensor cores' addresses wrap; static shared variables get addresses by their distance in memory from it.
constexpr unsigned kGivenAddress = 1u << 22, kGivenBytes = 227 << 10;

// The blocks of a cluster, which run at the same time on one OS thread each and can access each other's shared memory.
struct Cluster {
  explicit Cluster(int blocks) : places(static_cast<size_t>(blocks)) {}
  // Called when all threads of a block have arrived at the cluster's barrier.
  void Arrive();
  // Waits until so many phases of the barrier have ended, or a block has failed.
  void Await(uint64_t phases);
  uint64_t PhasesEnded();
  // Records why a block cannot continue; all other blocks then stop as well.
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

// The complaint of the first block that could not continue since the last call, or "".
std::string TakeComplaint();

// A running thread block. Each of its threads is a fiber, and a seed decides the order in which they run, which is hostile. Asynchronous
// operations (copies, products) complete at any time between their start and the wait for them, so that a missing wait shows in the
// results.
class Block {
 public:
  // Runs a block on the calling OS thread.
  static void Run(const EmulatedLaunch& launch, unsigned number, unsigned in_cluster, Cluster& cluster, uint64_t seed);
  // The block that runs on the calling OS thread.
  static Block& Current();

  // ---- For the running thread ----
  unsigned thread() const { return *places_.thread; }
  // Lets other threads run until `holds` returns true. `what` describes what is waited for.
  void WaitUntil(std::function<bool()> holds, const char* what);
  // Lets other threads run now, with some probability.
  void MayPause();
  void SyncThreads() { Meet(all_, 0, size_); }
  // Waits until `threads` threads, whichever they are, have arrived at the numbered barrier.
  void SyncSome(unsigned barrier, unsigned threads);
  void SyncWarp();
  void SyncCluster();
  unsigned long long& slot(unsigned thread) { return fibers_[thread].slot; }
  bool has_left(unsigned thread) const { return fibers_[thread].has_left; }
  unsigned size() const { return size_; }
  // Calls `run` with the calls of all threads of the warp, once all have arrived.
  void Together(PtxCall& call, function_ref<void(ArrayRef<PtxCall*>)> run);
  // Ends the block with an error: it does something that is undefined on a GPU.
  [[noreturn]] void Complain(const std::string& what);

  // ---- Asynchronous operations ---- Starts an operation: `end` is called once to complete it, at any time at which `can_end` holds, or by
  // End. Returns its number.
  uint64_t Start(std::function<void()> end, std::function<bool()> can_end = nullptr);
  void End(uint64_t number);
  bool HasEnded(uint64_t number) const { return running_.count(number) == 0; }

  // Overwrites memory whose contents are lost with a fill pattern.
  void Spoil(char* memory, size_t bytes) const;
  char* shared_memory() const { return places_.shared_memory; }
  char* At(unsigned address) const { return shared_memory() + (int64_t{address} - kGivenAddress); }
  Cluster& cluster() { return cluster_; }
  AsyncProducts& products() { return *products_; }
  AsyncGroups& copies() { return copies_[thread()]; }  // copies that the thread has started by cp.async
  TransferBarriers& barriers() { return *barriers_; }

 private:
  struct Fiber {
    void* stack_pointer = nullptr;  // saved while the fiber does not run
    std::function<bool()> may_run;  // empty: it may run
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
  unsigned left_ = 0;  // number of threads that have exited
  bool is_scheduling_ = true;
  std::mt19937_64 random_;
  Order order_;
  unsigned haste_;
  int spoiled_byte_;
  void* scheduler_ = nullptr;  // the scheduler's stack pointer while a fiber runs
  std::vector<Fiber> fibers_;
  Barrier all_, some_[16];  // for all threads of the block; for some of them, by barrier number (0 is for all)
  std::vector<Barrier> warps_;
  std::vector<Gathering> gatherings_;  // by warp
  unsigned at_cluster_ = 0;            // number of threads that wait for the cluster
  uint64_t cluster_phases_ = 0;
  std::map<uint64_t, Async> running_;
  uint64_t started_ = 0;
  std::unique_ptr<AsyncProducts> products_;
  std::vector<AsyncGroups> copies_;  // by thread
  std::unique_ptr<TransferBarriers> barriers_;
};

}  // namespace fusec::emulation
