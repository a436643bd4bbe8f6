#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/driver/explain/instruction_mix.h"
#include "compiler/support/result.h"

namespace fusec {

// The resources of one kernel, as its cubin gives them.
struct CubinKernel {
  std::string name;
  int registers = 0;         // per thread
  int64_t frame_bytes = 0;   // local memory of a thread's stack: arrays and spills
  int64_t shared_bytes = 0;  // static shared memory, which the kernel declares
  int max_threads = 0;       // per block (__launch_bounds__); 0 if the cubin does not say
  int barriers = 0;
  int64_t code_bytes = 0;  // including the padding at the end
  InstructionMix mix{};    // its machine code, including functions that it calls
};

// The kernels of a cubin, a 64-bit ELF file, by name. They are read from these sections:
//
//   .text.K        code; before sm_90 sh_info has the register count in its top byte
//   .nv.shared.K   static shared memory; from sm_90 on with the 1 KB that the system reserves
//                  (the file then has a section .nv.shared.reserved.0)
//   .nv.info       records of the whole file, which name a kernel by its symbol: REGCOUNT 0x2f,
//                  FRAME_SIZE 0x11
//   .nv.info.K     records of one kernel: MAX_THREADS 0x05, NUM_BARRIERS 0x4c
//
// A record is a format byte, an attribute byte, and a value. The value has 2 bytes in formats 1 to
// 3; in format 4 it is a 16-bit size and that many bytes. The results agree with ptxas -v. `file`
// is for errors.
Result<std::vector<CubinKernel>> ReadCubin(std::string_view bytes, const std::string& file);

}  // namespace fusec
