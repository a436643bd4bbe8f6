#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace fusec {

// Ends the process with an error `message` and the exit code kBugExitCode unless the object goes
// out of scope within so many seconds. It guards operations that cannot be interrupted, such as
// waiting for a kernel that never ends.
class Watchdog {
 public:
  Watchdog(double seconds, std::string message);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace fusec
