#include "runtime/python/src/process.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string_view>
#include <thread>

#include "runtime/python/src/errors.h"

namespace fusec::python {
namespace {

std::atomic<uint64_t> fork_count{0};
std::atomic<bool> has_run{false}, used_cuda{false};
std::atomic<bool> parent_has_run{false}, parent_used_cuda{false};

std::atomic<int> calls{0};  // the number of WithoutGil objects
std::atomic<bool> is_ending{false};
std::atomic<unsigned long> ending_thread{0};

// Whether this thread must not return to the interpreter, because another one ends that.
bool MustWait() {
  return is_ending.load() && ending_thread.load() != PyThread_get_thread_ident();
}

void AfterForkInChild() {
  fork_count.fetch_add(1);
  if (has_run.exchange(false)) parent_has_run.store(true);
  if (used_cuda.exchange(false)) parent_used_cuda.store(true);
  calls.store(0);  // the parent's other threads do not exist in the child
}

}  // namespace

void WatchForks() { pthread_atfork(nullptr, nullptr, AfterForkInChild); }

uint64_t ForkCount() { return fork_count.load(std::memory_order_relaxed); }

void NoteRun() { has_run.store(true, std::memory_order_relaxed); }
void NoteCuda() { used_cuda.store(true); }

void CheckMayLoad(const char* device) {
  const bool wants_cpu = device != nullptr && std::string_view(device) == "cpu";
  const char* start = "start this process with multiprocessing's \"spawn\" or \"forkserver\"";
  if (parent_used_cuda.load() && !wants_cpu) {
    Raise(FUSEC_BAD_USAGE,
          std::string("CUDA does not work in a process forked from one that used it; ") + start);
  }
  if (parent_has_run.load()) {
    Raise(FUSEC_BAD_USAGE, std::string("the threads of a process that ran a model are not in one "
                                       "forked from it; ") +
                               start);
  }
}

WithoutGil::WithoutGil() {
  const bool must_wait = MustWait();
  if (!must_wait) calls.fetch_add(1);
  state_ = PyEval_SaveThread();
  while (must_wait) pause();
}

WithoutGil::~WithoutGil() {
  PyEval_RestoreThread(static_cast<PyThreadState*>(state_));
  calls.fetch_sub(1);
}

WithoutGilWhileIdle::WithoutGilWhileIdle() : state_(PyEval_SaveThread()) {}

WithoutGilWhileIdle::~WithoutGilWhileIdle() {
  while (MustWait()) pause();
  PyEval_RestoreThread(static_cast<PyThreadState*>(state_));
}

void ShutDown() {
  ending_thread.store(PyThread_get_thread_ident());
  is_ending.store(true);
  while (calls.load() > 0) {
    PyThreadState* state = PyEval_SaveThread();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    PyEval_RestoreThread(state);
  }
}

}  // namespace fusec::python
