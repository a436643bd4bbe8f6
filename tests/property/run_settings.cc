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

int64_t Setting(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoll(text) : otherwise;
}

}  // namespace

std::vector<uint64_t> SeedsToRun(int runs) {
  const int64_t first = Setting("FUSEC_PROPERTY_SEED", 0);
  std::vector<uint64_t> seeds(static_cast<size_t>(Setting("FUSEC_PROPERTY_RUNS", runs)));
  for (size_t i = 0; i < seeds.size(); ++i) seeds[i] = static_cast<uint64_t>(first) + i;
  return seeds;
}

RunOn GpuOrItsText() {
  const char* device = std::getenv("FUSEC_PROPERTY_DEVICE");
  return device != nullptr && std::string(device) == "cuda" ? RunOn::kGpu : RunOn::kGpuTextOnCpu;
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
