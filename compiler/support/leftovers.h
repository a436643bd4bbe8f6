#pragma once

#include <sys/types.h>

#include <string>

namespace fusec {

// What this process must not leave behind, however it ends: processes that it started, and
// temporary folders.

// A process group that is killed if this process ends while the object exists, even if this process
// is killed.
class ChildGroup {
 public:
  explicit ChildGroup(pid_t leader);
  ~ChildGroup();
  ChildGroup(const ChildGroup&) = delete;

 private:
  pid_t leader_;
};

// HoldFolder marks a new folder as in use by this process, by a file lock that ends with the
// process.
void HoldFolder(const std::string& path);
void ReleaseFolder(const std::string& path);

// Removes folders that killed processes of this user left: those in `parent` whose names begin with
// `prefix`, that are older than a minute and that no process holds.
void SweepFolders(const std::string& parent, const std::string& prefix);

// Kills all process groups and removes all folders that are held. The caller ends the process
// afterwards.
void EndAll();

}  // namespace fusec
