#include "tests/emulation/ptx.h"

#include <cctype>
#include <cmath>
#include <unordered_map>

#include "compiler/ir/dtype.h"
#include "runtime/src/artifact/half.h"
#include "tests/emulation/async_ops.h"
#include "tests/emulation/block.h"
#include "tests/emulation/matrix_ops.h"

namespace fusec::emulation {
namespace {

using runtime::FloatToBFloat16;
using runtime::FloatToHalf;
using runtime::HalfToFloat;

std::string Trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \n\t");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \n\t") - first + 1);
}

std::vector<PtxArgument> ParseArguments(const std::string& text) {
  std::vector<PtxArgument> arguments;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c != '%' && c != '_' && !std::isalnum(static_cast<unsigned char>(c))) {
      ++at;
      continue;
    }
    const size_t begin = at++;
    while (at < text.size() && (text[at] == '_' || std::isalnum(static_cast<unsigned char>(text[at])))) ++at;
    const std::string word = text.substr(begin, at - begin);
    PtxArgument argument;
    if (c == '%') {
      argument.kind = PtxArgument::Kind::kOperand;
      argument.operand = std::stoul(word.substr(1));
    } else if (std::isdigit(static_cast<unsigned char>(c))) {
      argument.number = std::stoull(word, nullptr, 0);  // also of 0x..
    } else {
      argument.kind = PtxArgument::Kind::kName;
      argument.name = word;
    }
    arguments.push_back(argument);
  }
  return arguments;
}

PtxInstruction ParseInstruction(std::string text) {
  PtxInstruction instruction;
  if (const size_t colon = text.find(":\n"); colon != std::string::npos) {
    instruction.label = text.substr(0, colon);
    text = Trimmed(text.substr(colon + 2));
  }
  if (text.starts_with('@')) {
    instruction.guard_holds = text[1] != '!';
    const size_t begin = instruction.guard_holds ? 1 : 2, end = text.find(' ');
    instruction.guard = text.substr(begin, end - begin);
    text = Trimmed(text.substr(end));
  }
  const size_t end = text.find(' ');
  instruction.name = text.substr(0, end);
  if (end != std::string::npos) instruction.arguments = ParseArguments(text.substr(end));
  return instruction;
}

// The complete list of instructions of an asm statement.
std::vector<PtxInstruction> ParsePtx(const std::string& text) {
  std::vector<PtxInstruction> instructions;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(';', at), text.size());
    std::string one = Trimmed(text.substr(at, end - at));
    while (one.starts_with('{') || one.starts_with('}')) one = Trimmed(one.substr(1));
    at = end + 1;
    if (!one.empty() && !one.starts_with(".reg")) instructions.push_back(ParseInstruction(one));
  }
  return instructions;
}

// The text with the operands of constraint C inserted. Labels need no unique numbers, since a statement only uses its own.
std::string Completed(const char* text, ArrayRef<PtxOperand> operands) {
  std::string complete = text;
  for (size_t i = operands.size(); i-- > 0;) {  // %39 before %3
    if (operands[i].text == nullptr) continue;
    const std::string place = "%" + std::to_string(i);
    for (size_t at; (at = complete.find(place)) != std::string::npos;)
      complete.replace(at, place.size(), operands[i].text);
  }
  for (size_t at; (at = complete.find("%=")) != std::string::npos;) complete.erase(at, 2);
  return complete;
}

// ---- Instructions of one thread ----

bool RunConversion(PtxCall& call) {
  if (call.Is("cvt.f32.f16")) {
    *call.Place<float>(0) = HalfToFloat(static_cast<uint16_t>(call.Bits(1)));
  } else if (call.Is("cvt.rn.f16x2.f32")) {
    *call.Place<unsigned>(0) = FloatToHalf(call.Float(2)) | unsigned{FloatToHalf(call.Float(1))} << 16;
  } else if (call.Is("cvt.rn.bf16x2.f32")) {
    *call.Place<unsigned>(0) = FloatToBFloat16(call.Float(2)) | unsigned{FloatToBFloat16(call.Float(1))} << 16;
  } else if (call.Is("cvt.rn.f16.f32")) {
    *call.Place<uint16_t>(0) = FloatToHalf(call.Float(1));
  } else if (call.Is("cvt.rn.bf16.f32")) {
    *call.Place<uint16_t>(0) = FloatToBFloat16(call.Float(1));
  } else if (call.Is("cvt.rn.satfinite.e4m3x2.f32")) {
    *call.Place<uint16_t>(0) = static_cast<uint16_t>(DoubleToE4M3(call.Float(2)) | DoubleToE4M3(call.Float(1)) << 8);
  } else if (call.Is("cvt.rn.f16x2.e4m3x2")) {  // exact
    const auto half = [&](unsigned shift) {
      return unsigned{FloatToHalf(static_cast<float>(E4M3ToDouble(static_cast<uint8_t>(call.Word(1) >> shift))))};
    };
    *call.Place<unsigned>(0) = half(0) | half(8) << 16;
  } else if (call.Is("sub.rn.f16x2") || call.Is("mul.rn.f16x2")) {
    const auto half = [&](unsigned shift) {  // products, and differences of codes, are exact in f32
      const float a = HalfToFloat(static_cast<uint16_t>(call.Word(1) >> shift));
      const float b = HalfToFloat(static_cast<uint16_t>(call.Word(2) >> shift));
      return unsigned{FloatToHalf(call.Is("mul.rn.f16x2") ? a * b : a - b)} << shift;
    };
    *call.Place<unsigned>(0) = half(0) | half(16);
  } else if (call.Is("lop3.b32")) {  // a bit of the table is the result for three bits of the inputs, of which the first counts as 4
    unsigned result = 0;
    for (unsigned bit = 0; bit < 32; ++bit) {
      const auto of = [&](size_t input) { return call.Word(input) >> bit & 1; };
      result |= (call.Word(4) >> (of(1) << 2 | of(2) << 1 | of(3)) & 1) << bit;
    }
    *call.Place<unsigned>(0) = result;
  } else if (call.Is("mov.b32") && call.count() == 3) {  // the parts of a word
    *call.Place<uint16_t>(0) = static_cast<uint16_t>(call.Word(2));
    *call.Place<uint16_t>(1) = static_cast<uint16_t>(call.Word(2) >> 16);
  } else if (call.Is("rcp.approx.ftz.f32")) {
    *call.Place<float>(0) = 1.0f / call.Float(1);
  } else if (call.Is("ex2.approx.ftz.f32")) {
    *call.Place<float>(0) = std::exp2(call.Float(1));
  } else {
    return false;
  }
  return true;
}

bool RunOther(Block& block, PtxCall& call) {
  if (call.Is("st.global.v4.b32")) {
    unsigned words[4];
    for (size_t i = 0; i < 4; ++i) words[i] = call.Word(1 + i);
    std::memcpy(reinterpret_cast<void*>(call.Bits(0)), words, sizeof words);
  } else if (call.Is("bar.sync")) {
    if (call.instruction->arguments.size() == 1)
      block.SyncThreads();
    else
      block.SyncSome(call.Word(0), call.Word(1));
  } else if (call.Is("setp.ne.b32")) {
    call.registers[call.instruction->arguments[0].name] = call.Word(1) != call.Word(2);
  } else if (call.Is("setmaxnreg") || call.Is("griddepcontrol") || call.Is("fence.")) {
    block.MayPause();  // register counts, earlier kernels and memory ordering are not modeled
  } else {
    return false;
  }
  return true;
}

void Run(Block& block, PtxCall& call) {
  if (RunConversion(call) || RunOther(block, call) || RunAsyncOp(block, call) || RunMatrixOp(block, call)) return;
  block.Complain("the emulation does not know \"" + call.instruction->name + "\"");
}

}  // namespace

uint64_t PtxCall::Bits(size_t argument) const {
  const PtxArgument& read = instruction->arguments[argument];
  switch (read.kind) {
    case PtxArgument::Kind::kOperand:
      return operands[read.operand].value;
    case PtxArgument::Kind::kNumber:
      return read.number;
    case PtxArgument::Kind::kName:
      return registers.at(read.name);
  }
  return 0;
}

float PtxCall::Float(size_t argument) const {
  const unsigned bits = Word(argument);
  float number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

}  // namespace fusec::emulation

extern "C" void FusecEmulatePtx(const char* text, PtxOperand* operands, int count) {
  using namespace fusec::emulation;
  if (*text == '\0') return;
  std::string whole = text;  // with all texts that are inserted
  for (int i = 0; i < count; ++i) {
    if (operands[i].text != nullptr) whole += std::string("\n") + operands[i].text;
  }
  static thread_local std::unordered_map<std::string, std::vector<PtxInstruction>> parsed;
  std::vector<PtxInstruction>& instructions = parsed[whole];
  if (instructions.empty())
    instructions = ParsePtx(Completed(text, fusec::ArrayRef<PtxOperand>(operands, static_cast<size_t>(count))));
  Block& block = Block::Current();
  PtxCall call;
  call.operands = operands;
  block.MayPause();
  for (size_t i = 0; i < instructions.size(); ++i) {
    call.instruction = &instructions[i];
    const PtxInstruction& instruction = instructions[i];
    if (!instruction.guard.empty() && (call.registers.at(instruction.guard) != 0) != instruction.guard_holds) continue;
    if (instruction.name != "bra") {
      Run(block, call);
      continue;
    }
    for (i = 0; instructions[i].label != instruction.arguments[0].name;) ++i;
    --i;
  }
}
