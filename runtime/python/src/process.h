// State of the process that calls depend on: whether it was forked, and whether it is ending.
#pragma once

#include <fusec/fusec.h>

#include <cstdint>

namespace fusec::python {

// Starts to count forks. Called once, when the module is imported.
void WatchForks();

// How often this process and its ancestors were forked since the import. Objects created under
// another count belong to a parent process, whose threads and GPU are not available in this one.
uint64_t ForkCount();

// Record that this process has run models or used CUDA. In a child that is forked later, OpenMP
// hangs if the parent has run with several threads, and CUDA does not work at all.
void NoteRun();
void NoteCuda();
// Raises BadUsage if, for one of these reasons, a program cannot be loaded on this device (null:
// the default device) in this process.
void CheckMayLoad(const char* device);

// Releases the GIL as long as the object exists, for a call of the C ABI. If the interpreter has
// begun to end, a thread other than the one that ends it waits in the constructor until the process
// exits: if it requested the GIL again, the interpreter would end the thread in the middle of its
// C++ frames.
class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;

 private:
  void* state_;
};

// The same for a thread that only waits for something to do. The end of the interpreter does not wait
// for it: it waits in the destructor until the process exits.
class WithoutGilWhileIdle {
 public:
  WithoutGilWhileIdle();
  ~WithoutGilWhileIdle();
  WithoutGilWhileIdle(const WithoutGilWhileIdle&) = delete;

 private:
  void* state_;
};

// Called when the interpreter begins to end: waits until no thread is within WithoutGil.
void ShutDown();

}  // namespace fusec::python
