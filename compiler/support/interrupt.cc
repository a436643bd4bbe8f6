#include "compiler/support/interrupt.h"

#include <atomic>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <thread>

#include "compiler/support/leftovers.h"

namespace fusec {

namespace {

constexpr int kSecondsToEnd = 5;  // for work that polls Interrupted()

std::atomic<bool> interrupted = false;

// The body of the thread that receives the signals; no other thread does.
void AwaitInterrupts(sigset_t signals) {
  int signal = 0;
  sigwait(&signals, &signal);
  interrupted = true;
  const timespec patience = {kSecondsToEnd, 0};
  const int second = sigtimedwait(&signals, nullptr, &patience);
  if (second > 0) signal = second;
  EndAll();
  std::signal(signal, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  raise(signal);
}

}  // namespace

void CatchInterrupts() {
  static std::atomic<bool> is_caught = false;
  if (is_caught.exchange(true)) return;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  struct sigaction hangup;
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaddset(&signals, SIGHUP);  // it is ignored under nohup
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::thread(AwaitInterrupts, signals).detach();
}

bool Interrupted() { return interrupted; }

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  ReleaseFolder(path_);
}

}  // namespace fusec
