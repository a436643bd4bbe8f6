// What kernels' text calls in the emulation of a GPU (README.md): pasted in front of the text, and included by what it calls.
#ifndef FUSEC_TESTS_EMULATION_CALLS_H_
#define FUSEC_TESTS_EMULATION_CALLS_H_

// An operand of an asm statement.
struct PtxOperand {
  void* place;               // of what is written, or null
  const char* text;          // of constraint C
  unsigned long long value;  // the bits, of what is read
  int bytes;
};

// Where a block of this thread of the operating system finds itself.
struct PlacesOfBlock {
  unsigned *thread, *block, *block_size;  // threadIdx.x, blockIdx.x, blockDim.x
  char* shared_memory;                    // that is given at launch
};

struct EmulatedLaunch {
  int threads;
  int cluster_blocks;
  void (*find_places)(PlacesOfBlock*);  // of the calling thread of the operating system
  void (*kernel)(void*);
  void* arguments;
};

extern "C" {
// Runs a block, or all blocks of the cluster that begins with it. What a GPU would leave open ends the process with a message.
void FusecEmulateBlock(const EmulatedLaunch* launch, unsigned block);
void FusecEmulatePtx(const char* text, PtxOperand* operands, int count);
unsigned FusecSharedAddress(const void* place);
void FusecSyncThreads();
void FusecSyncWarp(unsigned mask);
// Whether it holds for all of the block's threads, or those of the warp; for which of the warp's.
int FusecAllOfBlock(int holds);
int FusecAllOfWarp(unsigned mask, int holds);
unsigned FusecBallot(unsigned mask, int holds);
// What thread `from` of the block holds.
unsigned long long FusecShuffle(unsigned mask, unsigned long long bits, unsigned from);
}

#endif  // FUSEC_TESTS_EMULATION_CALLS_H_
