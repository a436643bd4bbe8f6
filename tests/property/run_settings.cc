#include "tests/property/run_settings.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace fusec {
namespace {

std::string text_on_abort;

void WriteText(int signal) {
  const ssize_t written = write(STDERR_FILENO, text_on_abort.data(), text_on_abort.size());
  std::signal(signal, SIG_DFL);
  if (written >= 0) std::raise(signal);
}

// gtest's trace, held until the end of the scope.
std::unique_ptr<testing::ScopedTrace> trace;

}  // namespace

RunOn GpuOrItsText() {
  const char* device = std::getenv("FUSEC_PROPERTY_DEVICE");
  if (device == nullptr) return RunOn::kGpuTextOnCpu;
  return std::string(device) == "cuda" ? RunOn::kGpu : RunOn::kEmulatedGpu;
}

NowTrying::NowTrying(uint64_t seed, const Graph& graph) {
  text_on_abort = "\nseed " + std::to_string(seed) + "\n" + Print(graph);
  trace = std::make_unique<testing::ScopedTrace>(__FILE__, __LINE__, text_on_abort);
  std::signal(SIGABRT, WriteText);
  std::signal(SIGFPE, WriteText);
  std::signal(SIGSEGV, WriteText);
}

NowTrying::~NowTrying() {
  trace.reset();
  text_on_abort.clear();
}

}  // namespace fusec
