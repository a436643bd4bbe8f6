#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/driver/explain/instruction_mix.h"
#include "compiler/support/result.h"

namespace fusec {

// What a cubin says of one of its kernels.
struct CubinKernel {
  std::string name;
  int registers = 0;         // of a thread
  int64_t frame_bytes = 0;   // of local memory that a thread's stack takes: arrays and spills
  int64_t shared_bytes = 0;  // static, what the kernel declares
  int max_threads = 0;       // of a block (__launch_bounds__); 0 where nothing is said
  int barriers = 0;
  int64_t code_bytes = 0;  // with the padding at the end
  InstructionMix mix{};    // of its machine code, functions that it calls included
};

// The kernels of a cubin, an ELF file of 64 bits, by name:
//
//   .text.K        code; before sm_90 sh_info has the register count in its top byte
//   .nv.shared.K   static shared memory; since sm_90 with the 1 KB that the system keeps in front
//                  (the file then has a section .nv.shared.reserved.0)
//   .nv.info       records of the whole file, which name a kernel by its symbol: REGCOUNT 0x2f,
//                  FRAME_SIZE 0x11
//   .nv.info.K     records of one kernel: MAX_THREADS 0x05, NUM_BARRIERS 0x4c
//
// A record is a format byte, an attribute byte, and a value: 2 bytes in formats 1 to 3; in format 4
// a 16-bit size and so many bytes. Checked against ptxas -v. `file` is for errors.
Result<std::vector<CubinKernel>> ReadCubin(std::string_view bytes, const std::string& file);

}  // namespace fusec
