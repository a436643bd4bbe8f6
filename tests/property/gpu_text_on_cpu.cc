#include "tests/property/gpu_text_on_cpu.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <optional>

#include "compiler/emit/emit_kernel.h"
#include "compiler/support/check.h"
#include "tests/emulation/asm_calls.h"

namespace fusec {
namespace {

struct Fault {
  std::string right, wrong;
  bool was_written = false;
};
std::optional<Fault> fault;

size_t Find(const std::string& text, const std::string& wanted, size_t from = 0) {
  const size_t at = text.find(wanted, from);
  FUSEC_CHECK(at != std::string::npos, "the CPU library has no \"" + wanted + "\"");
  return at;
}

std::string ReadText(const std::string& name) {
  std::ifstream file(FUSEC_SOURCE_DIR "/tests/emulation/" + name);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  FUSEC_CHECK(!text.empty(), "tests/emulation/" + name + " is not there");
  return text;
}

}  // namespace

std::string GpuTextOnCpu(ArrayRef<const KernelPlan*> kernels, TextParts parts) {
  std::string text = EmitCpuLibrary(kernels, {});
  if (fault) {
    for (size_t at = 0; (at = text.find(fault->right, at)) != std::string::npos; at += fault->wrong.size()) {
      text.replace(at, fault->right.size(), fault->wrong);
      fault->was_written = true;
    }
  }
  text = emulation::AsmAsCalls(text);
  // Launchers run all threads of a block.
  for (const KernelPlan* kernel : kernels) {
    const std::string set_block = "blockIdx.x = static_cast<unsigned>(block);\n";
    const size_t call = Find(text, set_block, Find(text, kernel->name + "_blocks(")) + set_block.size();
    const size_t end = Find(text, ";\n", call);
    text.insert(end, "; })");
    text.insert(call, fmt::format("RunBlock({}, {}, [&] {{ ", kernel->block_size, kernel->cluster_blocks));
  }
  const size_t begin = Find(text, "constexpr Dim3 threadIdx");
  const size_t end = Find(text, "// Blocks run on several CPU threads");
  text.replace(begin, end - begin, ReadText("face.h") + "\n");
  const std::string given = "alignas(1024) extern __shared__ char shared_memory[];";
  for (size_t at = 0; (at = text.find(given, at)) != std::string::npos;)
    text.replace(at, given.size(), "auto& shared_memory = gpu_shared_memory;");
  const std::string one_thread = "#define __shared__\n";
  text.erase(Find(text, one_thread), one_thread.size());
  const std::string compiler = "#define __CUDACC__\n#define __CUDA_ARCH__ 900\n#define __CUDA_ARCH_FEAT_SM90_ALL\n";
  return (parts == TextParts::kOfSm90a ? compiler : "") + ReadText("calls.h") + text;
}

TextFault::TextFault(const std::string& right, const std::string& wrong) { fault = {right, wrong}; }
TextFault::~TextFault() { fault.reset(); }
bool TextFault::was_written() const { return fault->was_written; }

}  // namespace fusec
