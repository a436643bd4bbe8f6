#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "compiler/support/adt.h"
#include "tests/emulation/calls.h"

namespace fusec::emulation {

// An argument of an instruction. Arguments in braces are listed one after the other, and brackets are ignored.
struct PtxArgument {
  enum class Kind { kOperand, kNumber, kName } kind = Kind::kNumber;
  size_t operand = 0;       // number of the asm statement's operand
  uint64_t number = 0;
  std::string name;  // name of a register or a label
};

struct PtxInstruction {
  std::string name;   // "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
  std::string label;  // the label in front of the instruction
  std::string guard;  // a predicate, or ""
  bool guard_holds = true;
  std::vector<PtxArgument> arguments;
};

// An instruction of an asm statement that a thread executes.
struct PtxCall {
  PtxOperand* operands = nullptr;
  const PtxInstruction* instruction = nullptr;
  std::map<std::string, uint64_t> registers = {};  // registers of the statement, by name; a predicate is 0 or 1
  unsigned lane = 0;  // set if all threads of a warp execute the instruction together

  bool Is(const char* begin) const { return instruction->name.starts_with(begin); }
  bool Has(const char* part) const { return instruction->name.find(part) != std::string::npos; }
  size_t count() const { return instruction->arguments.size(); }
  uint64_t Bits(size_t argument) const;
  unsigned Word(size_t argument) const { return static_cast<unsigned>(Bits(argument)); }
  float Float(size_t argument) const;
  // The place of an argument that is written.
  template <class T>
  T* Place(size_t argument) {
    const PtxArgument& written = instruction->arguments[argument];
    const bool is_register = written.kind == PtxArgument::Kind::kName;
    return static_cast<T*>(is_register ? &registers[written.name] : operands[written.operand].place);
  }
};

}  // namespace fusec::emulation
