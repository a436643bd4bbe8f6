#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fusec {

// The purpose of a PTX or machine instruction.
enum class InstructionClass : uint8_t {
  kGlobalLoad,
  kGlobalStore,
  kSharedLoad,
  kSharedStore,
  kLocal,  // thread-local memory: arrays that are indexed at run time
  kAtomic,
  kFma,
  kFloat,    // other arithmetic and comparison of floats
  kSpecial,  // roots, quotients, exponentials, sines: special function unit, or many instructions
  kInteger,  // arithmetic, comparison, bits
  kTensor,
  kShuffle,  // exchange between the threads of a warp
  kBarrier,  // barriers and fences
  kControl,
  kMove,   // moves, conversions, selections, parameters
  kOther,  // machine instructions that the table lacks
  kCount,
};
constexpr size_t kInstructionClasses = static_cast<size_t>(InstructionClass::kCount);
const char* InstructionClassName(InstructionClass instruction_class);

// The number of instructions of each class.
using InstructionMix = std::array<int, kInstructionClasses>;

// Counts the machine instructions in a kernel's code, without padding. From Volta to Blackwell an
// instruction has 16 bytes; the lowest 9 bits are its opcode, and the next 3 say where its operands
// are. The table of opcodes comes from disassembling all kernels of the models for sm_80 to sm_120
// with nvdisasm. `capability` is 90 for sm_90.
InstructionMix ReadMachineCode(std::string_view code, int capability);

}  // namespace fusec
