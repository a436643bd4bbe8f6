// What calls must know of the process: whether it was forked since, and whether it is ending.
#pragma once

#include <fusec/fusec.h>

#include <cstdint>

namespace fusec::python {

// Called once, when the module is imported.
void WatchForks();

// How often this process and those it comes from were forked since the import. What was made under
// another number belongs to a parent: neither its threads nor its GPU are here.
uint64_t ForkCount();

// What a child would miss: the threads of OpenMP, which hang in it once the parent has run with
// several, and CUDA, which does not work in it at all.
void NoteRun();
void NoteCuda();
// Raises BadUsage where one of them keeps a program from being loaded on this device (null: the
// best one) in this process.
void CheckMayLoad(const char* device);

// While one lives the GIL is released, for a call of the C ABI. A thread that begins one after the
// interpreter began to end, and is not the one that ends it, waits here for the end: were it to ask
// for the GIL again, the interpreter would end the thread in the middle of its C++ frames.
class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;

 private:
  void* state_;
};

// The interpreter begins to end: waits until no thread is within WithoutGil.
void ShutDown();

}  // namespace fusec::python
