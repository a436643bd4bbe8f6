#include "compiler/support/watchdog.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "compiler/support/check.h"

namespace fusec {

Watchdog::Watchdog(double seconds, std::string message)
    : thread_([this, seconds, message = std::move(message)] {
        std::unique_lock lock(mutex_);
        const std::chrono::duration<double> time(seconds);
        if (changed_.wait_for(lock, time, [this] { return is_over_; })) return;
        std::fprintf(stderr, "fusec: error: %s\n", message.c_str());
        std::_Exit(kBugExitCode);
      }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

}  // namespace fusec
