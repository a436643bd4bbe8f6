#include "tests/property/gpu_text_on_cpu.h"

#include <fstream>
#include <iterator>

#include "compiler/emit/emit_kernel.h"
#include "compiler/support/check.h"

namespace fusec {
namespace {

size_t Find(const std::string& text, const std::string& wanted, size_t from = 0) {
  const size_t at = text.find(wanted, from);
  FUSEC_CHECK(at != std::string::npos, "the CPU library has no \"" + wanted + "\"");
  return at;
}

}  // namespace

std::string GpuTextOnCpu(ArrayRef<const KernelPlan*> kernels) {
  std::string text = EmitCpuLibrary(kernels, {});
  // Launchers run all threads of a block.
  for (const KernelPlan* kernel : kernels) {
    const std::string set_block = "blockIdx.x = static_cast<unsigned>(block);\n";
    const size_t call = Find(text, set_block, Find(text, kernel->name + "_blocks(")) + set_block.size();
    const size_t end = Find(text, ";\n", call);
    text.insert(end, "; })");
    text.insert(call, "RunBlock(" + std::to_string(kernel->block_size) + ", [&] { ");
  }
  const size_t begin = Find(text, "constexpr Dim3 threadIdx");
  const size_t end = Find(text, "// Blocks run on several CPU threads");
  std::ifstream file(FUSEC_SOURCE_DIR "/tests/property/gpu_threads.h");
  const std::string threads{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  FUSEC_CHECK(!threads.empty(), "tests/property/gpu_threads.h is not there");
  text.replace(begin, end - begin, threads + "\n");
  // Shared memory given at launch: as much as the largest GPU has.
  const std::string given = "alignas(1024) extern __shared__ char shared_memory[];";
  for (size_t at = 0; (at = text.find(given, at)) != std::string::npos;) {
    text.replace(at, given.size(), "alignas(1024) static thread_local char shared_memory[227 << 10];");
  }
  const std::string one_thread = "#define __shared__\n";
  text.erase(Find(text, one_thread), one_thread.size());
  return "#include <ucontext.h>\n\n#include <cstdlib>\n\n" + text;
}

}  // namespace fusec
