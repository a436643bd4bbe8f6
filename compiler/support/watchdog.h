#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace fusec {

// Ends the process with `message`, as a bug of ours (`kBugExitCode`), unless it goes out of scope
// within so many seconds: for what nothing can interrupt, such as the wait for a kernel that never
// ends.
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
