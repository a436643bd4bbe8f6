#pragma once

#include <sys/types.h>

#include <string>

namespace fusec {

// What this process must not leave behind, however it ends: processes that it has started, and
// folders that it fills.

// A group of processes, which is killed when this process ends without having ended it.
class ChildGroup {
 public:
  explicit ChildGroup(pid_t leader);
  ~ChildGroup();
  ChildGroup(const ChildGroup&) = delete;

 private:
  pid_t leader_;
};

// Marks a new folder as in use by this process, by a lock that ends with it.
void HoldFolder(const std::string& path);
void ReleaseFolder(const std::string& path);

// Removes the folders that killed processes of this user have left: those in `parent` whose names
// begin with `prefix`, that are older than a minute and that nobody holds.
void SweepFolders(const std::string& parent, const std::string& prefix);

// Kills all groups and removes all folders that are held, for whoever then ends the process.
void EndAll();

}  // namespace fusec
