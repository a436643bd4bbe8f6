#include "compiler/support/leftovers.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>

namespace fusec {

namespace {

namespace fs = std::filesystem;

struct Leftovers {
  std::mutex mutex;
  int guard = -1;  // the socket from whose other end the guard reads
  std::set<pid_t> groups;
  std::map<std::string, int> folders;  // path -> descriptor that holds the lock
};

Leftovers& All() {
  static auto* all = new Leftovers;  // threads may outlive static objects
  return *all;
}

// The body of the guard process: it reads the leaders of process groups that were started, and the
// negated leaders of those that ended, until this process is gone and its socket with it; then it
// kills the remaining groups. Between fork and _exit it must not call anything that allocates.
[[noreturn]] void Guard(int socket) {
  constexpr int kMostGroups = 256;
  static pid_t groups[kMostGroups];
  setpgid(0, 0);  // so that signals of the terminal do not reach it
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  dup2(socket, STDIN_FILENO);
  // The guard must not keep stdout and other descriptors open, on whose end readers wait.
  close_range(STDIN_FILENO + 1, ~0U, 0);
  pid_t leader = 0;
  while (true) {
    const ssize_t bytes = read(STDIN_FILENO, &leader, sizeof leader);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes != sizeof leader) break;
    pid_t* const place = std::find(groups, groups + kMostGroups, leader > 0 ? 0 : -leader);
    if (place != groups + kMostGroups) *place = std::max(leader, 0);
  }
  for (const pid_t group : groups) {
    if (group > 0) kill(-group, SIGKILL);
  }
  _exit(0);
}

// The mutex must be held. If the guard cannot be started, only EndAll kills groups.
void Tell(Leftovers& all, pid_t leader) {
  if (all.guard < 0) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
    const pid_t guard = fork();
    if (guard == 0) {
      close(ends[1]);
      Guard(ends[0]);
    }
    close(ends[0]);
    all.guard = ends[1];
  }
  send(all.guard, &leader, sizeof leader, MSG_NOSIGNAL);  // no effect without a guard
}

// A descriptor of the folder, or -1 if it is not a folder.
int Open(const std::string& folder) {
  return open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

void RemoveFolder(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

}  // namespace

ChildGroup::ChildGroup(pid_t leader) : leader_(leader) {
  Leftovers& all = All();
  const std::lock_guard lock(all.mutex);
  all.groups.insert(leader_);
  Tell(all, leader_);
}

ChildGroup::~ChildGroup() {
  Leftovers& all = All();
  const std::lock_guard lock(all.mutex);
  all.groups.erase(leader_);
  Tell(all, -leader_);
}

void HoldFolder(const std::string& path) {
  Leftovers& all = All();
  const std::lock_guard lock(all.mutex);
  const int descriptor = Open(path);
  if (descriptor < 0) return;
  flock(descriptor, LOCK_EX);  // a sweeping process holds it only briefly
  all.folders[path] = descriptor;
}

void ReleaseFolder(const std::string& path) {
  Leftovers& all = All();
  const std::lock_guard lock(all.mutex);
  const auto folder = all.folders.find(path);
  if (folder == all.folders.end()) return;
  close(folder->second);
  all.folders.erase(folder);
}

void SweepFolders(const std::string& parent, const std::string& prefix) {
  constexpr time_t kSeconds = 60;  // a younger folder may not be locked yet
  std::error_code error;
  for (fs::directory_iterator at(parent, error), end; !error && at != end; at.increment(error)) {
    if (!at->path().filename().string().starts_with(prefix)) continue;
    const int descriptor = Open(at->path().string());
    if (descriptor < 0) continue;
    struct stat status;
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0 && fstat(descriptor, &status) == 0 &&
        status.st_uid == geteuid() && time(nullptr) - status.st_mtime > kSeconds)
      RemoveFolder(at->path().string());
    close(descriptor);
  }
}

void EndAll() {
  Leftovers& all = All();
  const std::lock_guard lock(all.mutex);
  for (const pid_t group : all.groups) kill(-group, SIGKILL);
  for (const auto& [path, descriptor] : all.folders) RemoveFolder(path);
}

}  // namespace fusec
