#pragma once

#include <map>
#include <string>
#include <string_view>

#include "compiler/driver/explain/instruction_mix.h"

namespace fusec {

// The class of an opcode, which is given with its suffixes, such as "ld.global.nc.v4.f32".
InstructionClass ClassifyPtx(std::string_view opcode);

// The number of PTX instructions of each class in each kernel; the body of a loop counts once.
std::map<std::string, InstructionMix> ReadPtx(std::string_view ptx);

// The resources of a kernel, as the assembler's log ("ptxas info ...") gives them.
struct PtxasKernel {
  int registers = 0;
  int spill_store_bytes = 0, spill_load_bytes = 0;
  int shared_bytes = 0;
};
std::map<std::string, PtxasKernel> ReadPtxasLog(std::string_view log);

}  // namespace fusec
