#include "tests/emulation/block.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <latch>
#include <thread>
#include <utility>

#include "tests/emulation/async_ops.h"
#include "tests/emulation/matrix_ops.h"
#include "tests/emulation/ptx.h"

// Saves the callee-saved registers on the stack, stores the stack pointer, and continues where `to` was stored. (The C library's
// swapcontext makes a system call for the signal mask each time.)
extern "C" void FusecSwitchStack(void** from, void* to);
asm(R"(
.text
.globl FusecSwitchStack
.type FusecSwitchStack, @function
FusecSwitchStack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size FusecSwitchStack, .-FusecSwitchStack
)");

namespace fusec::emulation {
namespace {

constexpr unsigned kMostThreads = 1024, kWarp = 32;
// One in this many steps completes an asynchronous operation; 0: only a wait does.
constexpr unsigned kHastes[4] = {1, 4, 64, 0};
// The fill patterns of memory that nobody may read. One is NaN, the other a number (in f32 and f16), since kernels recompute sums that are
// not finite.
constexpr int kSpoiled[2] = {0xff, 0x45};
constexpr size_t kStackBytes = 1 << 20;

thread_local Block* current = nullptr;

std::mutex complaint_mutex;
std::string first_complaint;

// The stacks of the fibers, which later blocks on this OS thread reuse.
char* Stacks() {
  static thread_local struct Memory {
    Memory() {
      begin = static_cast<char*>(mmap(nullptr, kMostThreads * kStackBytes, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    }
    ~Memory() { munmap(begin, kMostThreads * kStackBytes); }
    char* begin;
  } memory;
  return memory.begin;
}

// Thrown if the error is not raised on a thread of the block.
struct Failed {};

// The stack pointer of a stack with this end on which FusecSwitchStack begins `main`.
void* NewStack(char* end, void (*main)()) {
  constexpr int kKept = 6;
  auto* top = reinterpret_cast<void**>(end) - 1;  // main finds it as after a call: 8 bytes below a multiple of 16
  *--top = reinterpret_cast<void*>(main);
  top -= kKept;
  std::fill_n(top, kKept, nullptr);
  return top;
}

unsigned Warps(unsigned threads) { return (threads + kWarp - 1) / kWarp; }

}  // namespace

void Cluster::Arrive() {
  const std::lock_guard lock(mutex_);
  if (++arrived_ < places.size()) return;
  arrived_ = 0;
  ++phases_ended_;
  changed_.notify_all();
}

void Cluster::Await(uint64_t phases) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return phases_ended_ >= phases || has_failed_; });
}

void Cluster::Fail(const std::string& complaint) {
  {
    const std::lock_guard lock(complaint_mutex);
    if (first_complaint.empty()) first_complaint = complaint;
  }
  const std::lock_guard lock(mutex_);
  has_failed_ = true;
  changed_.notify_all();
}

bool Cluster::has_failed() {
  const std::lock_guard lock(mutex_);
  return has_failed_;
}

uint64_t Cluster::PhasesEnded() {
  const std::lock_guard lock(mutex_);
  return phases_ended_;
}

std::string TakeComplaint() {
  const std::lock_guard lock(complaint_mutex);
  return std::exchange(first_complaint, "");
}

Block& Block::Current() { return *current; }

void Block::Run(const EmulatedLaunch& launch, unsigned number, unsigned in_cluster, Cluster& cluster, uint64_t seed) {
  Block block(launch, number, in_cluster, cluster, seed);
  current = &block;
  block.RunThreads();
  current = nullptr;
}

Block::Block(const EmulatedLaunch& launch, unsigned number, unsigned in_cluster, Cluster& cluster, uint64_t seed)
    : launch_(launch), cluster_(cluster), number_(number), size_(static_cast<unsigned>(launch.threads)),
      random_(seed), order_(static_cast<Order>(random_() % 3)), haste_(kHastes[random_() % 4]),
      spoiled_byte_(kSpoiled[random_() % 2]), fibers_(size_), warps_(Warps(size_)),
      gatherings_(Warps(size_)), products_(std::make_unique<AsyncProducts>(*this)),
      copies_(size_), barriers_(std::make_unique<TransferBarriers>(*this)) {
  launch.find_places(&places_);
  cluster.places[in_cluster] = places_;
  *places_.block = number;
  *places_.block_size = size_;
}

Block::~Block() = default;

void Block::FiberMain() {
  Block& block = *current;
  block.launch_.kernel(block.launch_.arguments);
  block.Leave();
}

void Block::RunThreads() {
  Spoil(places_.shared_memory, kGivenBytes);
  char* stack = Stacks();
  for (Fiber& fiber : fibers_) {
    stack += kStackBytes;
    fiber.stack_pointer = NewStack(stack, FiberMain);
  }
  try {
    while (left_ < size_ && !cluster_.has_failed()) Step();
  } catch (const Failed&) {
  }
  if (!running_.empty() && !cluster_.has_failed())
    Fail("it ends before copies or products that it has started");
  Spoil(places_.shared_memory, kGivenBytes);  // which other blocks of the cluster may no longer read
}

void Block::Spoil(char* memory, size_t bytes) const { std::memset(memory, spoiled_byte_, bytes); }

// Lets a thread run, or completes an asynchronous operation.
void Block::Step() {
  if (haste_ != 0 && Chance(haste_)) EndSomething();
  const int thread = ChooseThread();
  if (thread >= 0) {
    Resume(static_cast<unsigned>(thread));
  } else if (!EndSomething()) {
    if (at_cluster_ == 0) Complain("its threads wait for each other");
    cluster_.Await(cluster_phases_ + 1);
  }
}

// -1: none may run.
int Block::ChooseThread() {
  const auto may_run = [&](unsigned t) {
    const Fiber& fiber = fibers_[t];
    return !fiber.has_left && (!fiber.may_run || fiber.may_run());
  };
  const unsigned first = order_ == Order::kRandom ? static_cast<unsigned>(random_() % size_) : 0;
  for (unsigned i = 0; i < size_; ++i) {
    const unsigned t = order_ == Order::kLast ? size_ - 1 - i : (first + i) % size_;
    if (may_run(t)) return static_cast<int>(t);
  }
  return -1;
}

void Block::Resume(unsigned thread) {
  *places_.thread = thread;
  fibers_[thread].may_run = nullptr;
  is_scheduling_ = false;
  FusecSwitchStack(&scheduler_, fibers_[thread].stack_pointer);
  is_scheduling_ = true;
}

void Block::WaitUntil(std::function<bool()> holds, const char* what) {
  Fiber& fiber = fibers_[thread()];
  while (!holds()) {
    fiber.may_run = holds;
    fiber.waits_for = what;
    FusecSwitchStack(&fiber.stack_pointer, scheduler_);
  }
}

void Block::MayPause() {
  if (order_ != Order::kRandom || !Chance(8)) return;
  FusecSwitchStack(&fibers_[thread()].stack_pointer, scheduler_);
}

void Block::Leave() {
  const unsigned left = thread();
  fibers_[left].has_left = true;
  ++left_;
  if (all_.waiting > 0) Open(all_, 0, size_);
  Barrier& warp = warps_[left / kWarp];
  if (warp.waiting > 0) Open(warp, left / kWarp * kWarp, std::min(left / kWarp * kWarp + kWarp, size_));
  FusecSwitchStack(&fibers_[left].stack_pointer, scheduler_);
}

// Ends the phase of a barrier if all threads of first..last-1 that have not exited wait at it.
void Block::Open(Barrier& barrier, unsigned first, unsigned last) {
  unsigned present = 0;
  for (unsigned t = first; t < last; ++t) present += !fibers_[t].has_left;
  if (barrier.waiting < present) return;
  barrier.waiting = 0;
  ++barrier.phases_ended;
}

void Block::Meet(Barrier& barrier, unsigned first, unsigned last) {
  const uint64_t phase = barrier.phases_ended;
  ++barrier.waiting;
  Open(barrier, first, last);
  WaitUntil([&barrier, phase] { return barrier.phases_ended != phase; }, "the other threads");
}

void Block::SyncSome(unsigned barrier, unsigned threads) {
  if (barrier == 0 || barrier >= std::size(some_)) Complain("barrier " + std::to_string(barrier) + " is none of some threads");
  Barrier& some = some_[barrier];
  const uint64_t phase = some.phases_ended;
  if (++some.waiting == threads) {
    some.waiting = 0;
    ++some.phases_ended;
  }
  WaitUntil([&some, phase] { return some.phases_ended != phase; }, "some of the threads");
}

void Block::SyncWarp() {
  const unsigned first = thread() / kWarp * kWarp;
  Meet(warps_[first / kWarp], first, std::min(first + kWarp, size_));
}

void Block::SyncCluster() {
  const uint64_t phase = cluster_phases_;
  ++at_cluster_;
  if (at_cluster_ == size_) cluster_.Arrive();
  WaitUntil(
      [this, phase] {
        if (cluster_phases_ == phase && cluster_.PhasesEnded() > phase) {
          at_cluster_ = 0;
          ++cluster_phases_;
        }
        return cluster_phases_ != phase;
      },
      "the cluster");
}

void Block::Together(PtxCall& call, function_ref<void(ArrayRef<PtxCall*>)> run) {
  const unsigned first = thread() / kWarp * kWarp;
  Gathering& gathering = gatherings_[first / kWarp];
  const uint64_t number = gathering.number;
  if (!gathering.calls.empty() && gathering.calls[0]->instruction != call.instruction)
    Complain("threads of a warp are at \"" + call.instruction->name + "\" and \"" +
             gathering.calls[0]->instruction->name + "\", which all must execute together");
  call.lane = thread() % kWarp;
  gathering.calls.push_back(&call);
  if (gathering.calls.size() < kWarp) {
    WaitUntil([&gathering, number] { return gathering.number != number; }, call.instruction->name.c_str());
    return;
  }
  std::vector<PtxCall*> lanes(kWarp);
  for (PtxCall* one : gathering.calls) lanes[one->lane] = one;
  gathering.calls.clear();
  ++gathering.number;
  run(lanes);
}

uint64_t Block::Start(std::function<void()> end, std::function<bool()> can_end) {
  running_[++started_] = {std::move(end), std::move(can_end)};
  return started_;
}

void Block::End(uint64_t number) {
  const auto found = running_.find(number);
  if (found == running_.end()) return;
  const Async async = std::move(found->second);
  running_.erase(found);
  async.end();
}

// Completes a random asynchronous operation that can complete. Returns whether there was one.
bool Block::EndSomething() {
  if (running_.empty()) return false;
  auto at = running_.begin();
  std::advance(at, static_cast<int64_t>(random_() % running_.size()));
  for (size_t i = 0; i < running_.size(); ++i) {
    if (!at->second.can_end || at->second.can_end()) {
      End(at->first);
      return true;
    }
    if (++at == running_.end()) at = running_.begin();
  }
  return false;
}

void Block::Fail(const std::string& what) {
  std::string complaint = "block " + std::to_string(number_) + " cannot run: " + what;
  for (unsigned t = 0; t < size_; t += kWarp) {
    if (!fibers_[t].has_left && fibers_[t].may_run)
      complaint += "; thread " + std::to_string(t) + " waits for " + fibers_[t].waits_for;
  }
  cluster_.Fail(complaint);
}

void Block::Complain(const std::string& what) {
  Fail(what + ", at thread " + std::to_string(thread()));
  if (is_scheduling_) throw Failed();
  FusecSwitchStack(&fibers_[thread()].stack_pointer, scheduler_);
  std::abort();
}

}  // namespace fusec::emulation

using fusec::emulation::Block;
using fusec::emulation::Cluster;

extern "C" {

void FusecEmulateBlock(const EmulatedLaunch* launch, unsigned number) {
  const auto blocks = static_cast<unsigned>(launch->cluster_blocks);
  if (number % blocks != 0) return;  // the cluster's first block has run it
  static const uint64_t seed = [] {
    const char* given = std::getenv("FUSEC_EMULATION_SEED");
    return given == nullptr ? uint64_t{1} : std::strtoull(given, nullptr, 10);
  }();
  Cluster cluster(static_cast<int>(blocks));
  std::latch ended(blocks);  // the blocks' shared memory stays until all have ended
  const auto run = [&](unsigned i) {
    Block::Run(*launch, number + i, i, cluster, seed * 0x9e3779b97f4a7c15u + number + i);
    ended.arrive_and_wait();
  };
  std::vector<std::thread> others;
  for (unsigned i = 1; i < blocks; ++i) others.emplace_back(run, i);
  run(0);
  for (std::thread& other : others) other.join();
}

void FusecSyncThreads() { Block::Current().SyncThreads(); }

void FusecSyncWarp(unsigned) { Block::Current().SyncWarp(); }

// For how many threads of the block, none of which may have exited, `holds` is nonzero.
int FusecCountOfBlock(int holds) {
  Block& block = Block::Current();
  block.slot(block.thread()) = holds != 0;
  block.SyncThreads();
  int count = 0;
  for (unsigned t = 0; t < block.size(); ++t) {
    if (block.has_left(t)) block.Complain("a vote of a thread that has left");
    count += block.slot(t) != 0 ? 1 : 0;
  }
  block.SyncThreads();
  return count;
}

unsigned FusecBallot(unsigned mask, int holds) {
  Block& block = Block::Current();
  if (mask != 0xffffffffu) block.Complain("a vote of a part of a warp");
  block.slot(block.thread()) = holds != 0;
  block.SyncWarp();
  const unsigned first = block.thread() / 32 * 32;
  unsigned bits = 0;
  for (unsigned t = first; t < first + 32 && t < block.size(); ++t) {
    if (block.has_left(t)) block.Complain("a vote of a thread that has left");
    bits |= (block.slot(t) != 0 ? 1u : 0u) << (t - first);
  }
  block.SyncWarp();
  return bits;
}

int FusecAllOfWarp(unsigned mask, int holds) {
  Block& block = Block::Current();
  const unsigned first = block.thread() / 32 * 32;
  const unsigned count = std::min(32u, block.size() - first);
  return FusecBallot(mask, holds) == (count == 32 ? ~0u : (1u << count) - 1);
}

unsigned long long FusecShuffle(unsigned mask, unsigned long long bits, unsigned from) {
  Block& block = Block::Current();
  if (mask != 0xffffffffu) block.Complain("a shuffle of a part of a warp");
  block.slot(block.thread()) = bits;
  block.SyncWarp();
  if (from >= block.size() || block.has_left(from)) block.Complain("a shuffle reads a thread that has left");
  const unsigned long long result = block.slot(from);
  block.SyncWarp();
  return result;
}
}
