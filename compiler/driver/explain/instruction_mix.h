#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fusec {

// What an instruction of PTX or of a GPU is for.
enum class InstructionClass : uint8_t {
  kGlobalLoad,
  kGlobalStore,
  kSharedLoad,
  kSharedStore,
  kLocal,  // thread-local memory: arrays that are indexed at run time
  kAtomic,
  kFma,
  kFloat,    // other arithmetic and comparison of floats
  kSpecial,  // roots, quotients, exponentials, sines: the special function unit, or many steps
  kInteger,  // arithmetic, comparison, bits
  kTensor,
  kShuffle,  // between the threads of a warp
  kBarrier,  // and fences
  kControl,
  kMove,   // moves, conversions, selections, parameters
  kOther,  // of the machine, not known here
  kCount,
};
constexpr size_t kInstructionClasses = static_cast<size_t>(InstructionClass::kCount);
const char* InstructionClassName(InstructionClass instruction_class);

// How many instructions of each class.
using InstructionMix = std::array<int, kInstructionClasses>;

// The machine instructions in a kernel's code, padding left out. From Volta to Blackwell an
// instruction has 16 bytes, and the lowest 9 bits say what it does (the next 3 where its operands
// are). Found by disassembling all kernels of the models for sm_80 to sm_120 with nvdisasm.
// `capability` is 90 for sm_90.
InstructionMix ReadMachineCode(std::string_view code, int capability);

}  // namespace fusec
