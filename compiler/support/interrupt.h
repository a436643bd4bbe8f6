#pragma once

#include <string>

namespace fusec {

// After this, the first SIGINT, SIGTERM or SIGHUP (unless ignored, as by nohup) only sets a flag,
// which long work asks for at every stage. The second ends the process at once, with what it has
// started and left half done (leftovers.h). No handler is installed, for NVRTC puts its own in the
// place of others while it compiles: the signals are blocked in this thread and all that it starts,
// and a thread waits for them. Where nobody reads stdout any more, writing fails, and the process
// goes on.
void CatchInterrupts();
bool Interrupted();

// Removes a folder and all in it when it goes out of scope, if it is still there.
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
