#pragma once

#include <map>
#include <string>
#include <string_view>

#include "compiler/driver/explain/instruction_mix.h"

namespace fusec {

// The class of an opcode, which is given with its suffixes, such as "ld.global.nc.v4.f32".
InstructionClass ClassifyPtx(std::string_view opcode);

// Instructions in the text of each kernel; loops count once.
std::map<std::string, InstructionMix> ReadPtx(std::string_view ptx);

// What the assembler's log ("ptxas info ...") says about each kernel.
struct PtxasKernel {
  int registers = 0;
  int spill_store_bytes = 0, spill_load_bytes = 0;
  int shared_bytes = 0;
};
std::map<std::string, PtxasKernel> ReadPtxasLog(std::string_view log);

}  // namespace fusec
