// Declares what the text of kernels calls in the emulation of a GPU (README.md). This file is pasted in front of the text, and included by
// the implementation.
#ifndef FUSEC_TESTS_EMULATION_CALLS_H_
#define FUSEC_TESTS_EMULATION_CALLS_H_

// An operand of an asm statement.
struct PtxOperand {
  void* place;               // where the operand is written, or null
  const char* text;          // for an operand with constraint C
  unsigned long long value;  // the bits of an operand that is read
  int bytes;
};

// Where the variables of the block on this OS thread are.
struct PlacesOfBlock {
  unsigned *thread, *block, *block_size;  // threadIdx.x, blockIdx.x, blockDim.x
  char* shared_memory;                    // dynamic shared memory
};

struct EmulatedLaunch {
  int threads;
  int cluster_blocks;
  void (*find_places)(PlacesOfBlock*);  // fills in the places for the calling OS thread
  void (*kernel)(void*);
  void* arguments;
};

extern "C" {
// Runs a block, or all blocks of the cluster that begins with it. Behavior that is undefined on a GPU ends the process with a message.
void FusecEmulateBlock(const EmulatedLaunch* launch, unsigned block);
void FusecEmulatePtx(const char* text, PtxOperand* operands, int count);
unsigned FusecSharedAddress(const void* place);
void FusecSyncThreads();
void FusecSyncWarp(unsigned mask);
// For how many threads of the block `holds` is nonzero; whether it is for all threads of the warp; and the mask of those for which it is.
int FusecCountOfBlock(int holds);
int FusecAllOfWarp(unsigned mask, int holds);
unsigned FusecBallot(unsigned mask, int holds);
// Returns the bits that thread `from` of the block holds.
unsigned long long FusecShuffle(unsigned mask, unsigned long long bits, unsigned from);
}

#endif  // FUSEC_TESTS_EMULATION_CALLS_H_
