#include "compiler/driver/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern char** environ;

namespace fusec {

namespace {

// A file without a name, to which a child writes and from which we read: no pipe that could fill
// up.
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

}  // namespace

ChildResult RunChild(const std::vector<std::string>& arguments) {
  ChildResult result;
  const Capture output, errors;
  if (!output.good() || !errors.good()) return result;
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output.descriptor(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors.descriptor(), STDERR_FILENO);
  pid_t child = 0;
  const int spawned = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (spawned != 0) return result;
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return result;
  }
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  result.output = output.Text();
  result.errors = errors.Text();
  return result;
}

Result<std::string> MakeTemporaryFolder() {
  const char* temp = std::getenv("TMPDIR");
  std::string folder = std::string(temp && *temp ? temp : "/tmp") + "/fusec-XXXXXX";
  if (!mkdtemp(folder.data())) {
    return Fail(ErrorKind::kToolchain,
                "cannot make a temporary folder: " + std::string(std::strerror(errno)));
  }
  return folder;
}

}  // namespace fusec
