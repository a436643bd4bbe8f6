#pragma once

#include <string>

namespace fusec {

// After this call, the first SIGINT, SIGTERM or SIGHUP (unless SIGHUP is ignored, as under nohup)
// only sets a flag, which long-running work polls at every stage. The second one, or 5 seconds
// after the first, ends the process and removes the processes and folders that it left
// (leftovers.h). No signal handler is installed, because NVRTC replaces handlers while it compiles.
// Instead the signals are blocked in this thread and all threads that it starts, and a dedicated
// thread waits for them. SIGPIPE is ignored: if nobody reads stdout any more, writes fail and the
// process goes on.
void CatchInterrupts();
bool Interrupted();

// Removes a folder and its contents when it goes out of scope, if it still exists.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace fusec
