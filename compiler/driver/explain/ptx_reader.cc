#include "compiler/driver/explain/ptx_reader.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

namespace fusec {

namespace {

bool IsOneOf(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Whether one of the opcode's suffixes is `word`.
bool HasSuffix(std::string_view opcode, std::string_view word) {
  for (size_t dot = opcode.find('.'); dot != std::string_view::npos;) {
    const size_t next = opcode.find('.', dot + 1);
    if (opcode.substr(dot + 1, next - dot - 1) == word) return true;
    dot = next;
  }
  return false;
}

bool IsFloatOp(std::string_view opcode) {
  for (const char* type : {"f32", "f64", "f16", "f16x2", "bf16", "bf16x2", "f32x2"}) {
    if (HasSuffix(opcode, type)) return true;
  }
  return false;
}

InstructionClass ClassifyMemory(std::string_view opcode, bool is_load) {
  if (HasSuffix(opcode, "param") || HasSuffix(opcode, "const")) return InstructionClass::kMove;
  if (HasSuffix(opcode, "local")) return InstructionClass::kLocal;
  const bool shared = HasSuffix(opcode, "shared") || HasSuffix(opcode, "shared::cta") ||
                      HasSuffix(opcode, "shared::cluster");
  if (shared) return is_load ? InstructionClass::kSharedLoad : InstructionClass::kSharedStore;
  return is_load ? InstructionClass::kGlobalLoad : InstructionClass::kGlobalStore;
}

// Removes the first word from `text` and returns it.
std::string_view NextWord(std::string_view& text, std::string_view separators) {
  const size_t begin = std::min(text.find_first_not_of(separators), text.size());
  const size_t end = std::min(text.find_first_of(separators, begin), text.size());
  const std::string_view word = text.substr(begin, end - begin);
  text.remove_prefix(end);
  return word;
}

std::string_view NextLine(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

// Counts the instructions in a line of a function's body: statements that end in a semicolon and
// begin with a lower-case letter, after labels, predicates and the braces of inline assembly. The
// operands of a call may be on lines of their own.
void CountLine(std::string_view line, InstructionMix& mix) {
  while (!line.empty()) {
    const size_t end = line.find(';');
    std::string_view statement = line.substr(0, end);
    line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
    std::string_view word = NextWord(statement, " \t{}");
    if (word.ends_with(":")) word = NextWord(statement, " \t{}");
    if (word.starts_with("@")) word = NextWord(statement, " \t{}");
    const bool is_name = !word.empty() && word[0] >= 'a' && word[0] <= 'z';
    const bool is_whole = end != std::string_view::npos || word.starts_with("call");
    if (is_name && is_whole) ++mix[static_cast<size_t>(ClassifyPtx(word))];
  }
}

// The number before `unit` in a line such as "0 bytes spill stores, 4 bytes spill loads".
int NumberBefore(std::string_view line, std::string_view unit) {
  const size_t at = line.find(unit);
  if (at == std::string_view::npos || at == 0) return 0;
  const size_t end = line.find_last_of("0123456789", at);
  if (end == std::string_view::npos) return 0;
  const size_t begin = line.find_last_not_of("0123456789", end);
  return std::atoi(std::string(line.substr(begin + 1, end - begin)).c_str());
}

}  // namespace

InstructionClass ClassifyPtx(std::string_view opcode) {
  const std::string_view base = opcode.substr(0, opcode.find('.'));
  if (base == "ld" || base == "ldu") return ClassifyMemory(opcode, true);
  if (base == "st") return ClassifyMemory(opcode, false);
  if (IsOneOf(base, {"cp", "tex", "prefetch"})) return InstructionClass::kGlobalLoad;
  if (IsOneOf(base, {"atom", "red", "multimem"})) return InstructionClass::kAtomic;
  if (IsOneOf(base, {"mma", "wmma", "wgmma", "ldmatrix", "stmatrix", "tcgen05"}))
    return InstructionClass::kTensor;
  if (IsOneOf(base, {"shfl", "vote", "match", "activemask", "redux", "elect"}))
    return InstructionClass::kShuffle;
  if (IsOneOf(base, {"bar", "barrier", "membar", "fence", "mbarrier", "griddepcontrol"}))
    return InstructionClass::kBarrier;
  if (IsOneOf(base, {"bra", "brx", "call", "ret", "exit", "trap", "brkpt", "nanosleep"}))
    return InstructionClass::kControl;
  if (IsOneOf(base, {"mov", "cvt", "cvta", "selp", "slct", "prmt", "isspacep", "mapa"}))
    return InstructionClass::kMove;
  if (!IsFloatOp(opcode)) return InstructionClass::kInteger;
  if (base == "fma" || base == "mad") return InstructionClass::kFma;
  if (IsOneOf(base, {"div", "sqrt", "rsqrt", "rcp", "ex2", "lg2", "sin", "cos", "tanh"}))
    return InstructionClass::kSpecial;
  return InstructionClass::kFloat;
}

std::map<std::string, InstructionMix> ReadPtx(std::string_view ptx) {
  std::map<std::string, InstructionMix> kernels;
  InstructionMix* kernel = nullptr;  // the kernel or function that is being read
  InstructionMix other{};            // instructions of functions that are not kernels
  int depth = 0;
  bool in_body = false;
  while (!ptx.empty()) {
    const std::string_view line = NextLine(ptx);
    const bool is_head = depth == 0;
    if (is_head && (line.find(".entry") != std::string_view::npos ||
                    line.find(".func") != std::string_view::npos)) {
      std::string_view rest = line.substr(std::min(line.find(".entry"), line.size()));
      NextWord(rest, " \t(");
      const std::string name(NextWord(rest, " \t("));
      kernel = name.empty() ? &other : &kernels[name];
      in_body = false;
    }
    if (in_body && depth > 0 && kernel != nullptr) CountLine(line, *kernel);
    const int opened = static_cast<int>(std::count(line.begin(), line.end(), '{'));
    const int closed = static_cast<int>(std::count(line.begin(), line.end(), '}'));
    depth += opened - closed;
    if (is_head && depth > 0) in_body = true;
  }
  return kernels;
}

std::map<std::string, PtxasKernel> ReadPtxasLog(std::string_view log) {
  std::map<std::string, PtxasKernel> kernels;
  PtxasKernel* kernel = nullptr;
  while (!log.empty()) {
    const std::string_view line = NextLine(log);
    if (const size_t at = line.find("Compiling entry function '"); at != std::string_view::npos) {
      std::string_view rest = line.substr(at);
      NextWord(rest, "'");
      kernel = &kernels[std::string(NextWord(rest, "'"))];
    }
    if (kernel == nullptr) continue;
    if (line.find("spill stores") != std::string_view::npos) {
      kernel->spill_store_bytes = NumberBefore(line, " bytes spill stores");
      kernel->spill_load_bytes = NumberBefore(line, " bytes spill loads");
    }
    if (line.find("Used ") != std::string_view::npos) {
      kernel->registers = NumberBefore(line, " registers");
      kernel->shared_bytes = NumberBefore(line, " bytes smem");
    }
  }
  return kernels;
}

}  // namespace fusec
