#include "compiler/support/interrupt.h"

#include <csignal>
#include <filesystem>

namespace fusec {

namespace {

volatile std::sig_atomic_t interrupted = 0;

void Remember(int signal) {
  interrupted = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

void CatchInterrupts() {
  std::signal(SIGINT, &Remember);
  std::signal(SIGTERM, &Remember);
  if (std::signal(SIGHUP, &Remember) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);  // nohup
}

bool Interrupted() { return interrupted != 0; }

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace fusec
