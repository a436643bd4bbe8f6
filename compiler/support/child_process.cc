#include "compiler/support/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>

#include "compiler/support/adt.h"
#include "compiler/support/interrupt.h"
#include "compiler/support/leftovers.h"

extern char** environ;

namespace fusec {

namespace {

// A temporary file without a name to which a child writes; unlike a pipe it cannot fill up.
class Capture {
 public:
  Capture() : file_(std::tmpfile()) {}
  ~Capture() {
    if (file_) std::fclose(file_);
  }
  Capture(const Capture&) = delete;
  bool good() const { return file_ != nullptr; }
  int descriptor() const { return fileno(file_); }
  std::string Text() const {
    std::string text;
    char buffer[4096];
    std::rewind(file_);
    for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, file_)) > 0;) text.append(buffer, n);
    return text;
  }

 private:
  std::FILE* file_;
};

std::vector<char*> Pointers(ArrayRef<std::string> texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> Environment(const std::string& temporary_folder) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable; ++variable) {
    const bool replaced = !temporary_folder.empty() && std::strncmp(*variable, "TMPDIR=", 7) == 0;
    if (!replaced) variables.emplace_back(*variable);
  }
  if (!temporary_folder.empty()) variables.push_back("TMPDIR=" + temporary_folder);
  return variables;
}

// Returns the exit code, or the negated signal that ended the child. Every 10 ms it checks whether
// this process was interrupted; if so, it calls `stop`, which ends the child.
int WaitFor(pid_t child, function_ref<void()> stop) {
  constexpr timespec kPause = {0, 10'000'000};
  bool ended = false;
  int status = 0;
  while (true) {
    const pid_t finished = waitpid(child, &status, WNOHANG);
    if (finished == child)
      return WIFEXITED(status) && !ended ? WEXITSTATUS(status)
                                         : -(ended ? SIGTERM : WTERMSIG(status));
    if (finished < 0 && errno != EINTR) return -1;
    if (Interrupted() && !ended) {
      stop();
      ended = true;
    }
    nanosleep(&kPause, nullptr);
  }
}

}  // namespace

ChildResult RunChild(ArrayRef<std::string> arguments, const std::string& temporary_folder) {
  ChildResult result;
  const Capture output, errors;
  if (!output.good() || !errors.good()) return result;
  const std::vector<std::string> variables = Environment(temporary_folder);
  const std::vector<char*> argv = Pointers(arguments), environment = Pointers(variables);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output.descriptor(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors.descriptor(), STDERR_FILENO);
  // A separate process group, so that a compiler can be terminated with all processes that it
  // started.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  sigset_t none;  // no blocked signals, unlike in this process
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  pid_t child = 0;
  const int spawned =
      posix_spawnp(&child, argv[0], &actions, &attributes, argv.data(), environment.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (spawned != 0) {
    result.errors = std::strerror(spawned);
    return result;
  }
  const ChildGroup group(child);
  result.exit_code = std::max(WaitFor(child, [child] { kill(-child, SIGTERM); }), -1);
  result.output = output.Text();
  result.errors = errors.Text();
  return result;
}

int RunInCopy(function_ref<int()> work) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) return work();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int code = work();
    std::fflush(nullptr);
    _exit(code);
  }
  return WaitFor(child, [child] { kill(child, SIGKILL); });
}

Result<std::string> MakeTemporaryFolder() {
  const char* temp = std::getenv("TMPDIR");
  const std::string parent = temp && *temp ? temp : "/tmp";
  const std::string prefix = "fusec-work-";
  static std::once_flag swept;
  std::call_once(swept, [&] { SweepFolders(parent, prefix); });
  std::string folder = parent + "/" + prefix + "XXXXXX";
  if (!mkdtemp(folder.data())) {
    return Fail(ErrorKind::kToolchain,
                "cannot make a temporary folder in " + parent + ": " + std::strerror(errno));
  }
  HoldFolder(folder);
  return folder;
}

}  // namespace fusec
