// conformance: runs ONNX's official node tests and compares the outcome of each with a list, so that a change that breaks (or fixes) a case
// is detected. Every case runs in a child process, so that a crash is counted and cannot stop the run.
//
//   conformance [--interpreter | --cuda] [--update] [--filter TEXT] [-j N] [--list FILE]
//   [NODE_TESTS_FOLDER]
//
// The last line gives the numbers of passed and failed cases. A case fails if an answer is wrong, the child crashed, or the list has
// another outcome. A line `differs: REASON` is written by hand, for a case whose expected answer is not the only right one.
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/conformance/case_runner.h"

namespace fusec {
namespace {

constexpr unsigned kSecondsPerCase = 300;

struct Arguments {
  Mode mode = Mode::kCpu;
  bool update = false;
  int jobs = 1;
  std::string filter;
  std::string list = FUSEC_CONFORMANCE_LIST;
  std::string folder = FUSEC_NODE_TESTS;
};

int Usage() {
  fmt::print(stderr,
             "usage: conformance [--interpreter | --cuda] [--update] [--filter TEXT] [-j N] [--list FILE] "
             "[NODE_TESTS_FOLDER]\n");
  return 2;
}

bool ParseArguments(int count, char** values, Arguments& arguments) {
  for (int i = 1; i < count; ++i) {
    const std::string argument = values[i];
    const bool has_value = i + 1 < count;
    if (argument == "--interpreter") arguments.mode = Mode::kInterpreter;
    else if (argument == "--cuda") arguments.mode = Mode::kCuda;
    else if (argument == "--update") arguments.update = true;
    else if (argument == "--filter" && has_value) arguments.filter = values[++i];
    else if (argument == "--list" && has_value) arguments.list = values[++i];
    else if (argument == "-j" && has_value) arguments.jobs = std::max(1, std::atoi(values[++i]));
    else if (argument.rfind("-j", 0) == 0 && argument.size() > 2)
      arguments.jobs = std::max(1, std::atoi(argument.c_str() + 2));
    else if (argument[0] != '-') arguments.folder = argument;
    else return false;
  }
  return true;
}

// The list: one line a case, "test_abs pass".
std::map<std::string, std::string> ReadList(const std::string& path) {
  std::map<std::string, std::string> list;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t space = line.find(' ');
    if (space != std::string::npos) list[line.substr(0, space)] = line.substr(space + 1);
  }
  return list;
}

std::vector<std::string> CaseNames(const Arguments& arguments) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(arguments.folder)) {
    const std::string name = entry.path().filename();
    if (entry.is_directory() && name.find(arguments.filter) != std::string::npos) {
      names.push_back(name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Runs a case in a process of its own, which writes the outcome to a pipe: one character for the kind, then the text.
struct Child {
  std::string name;
  int pipe = -1;
};

class Runner {
 public:
  Runner(const Arguments& arguments, std::string work_folder)
      : arguments_(arguments), work_folder_(std::move(work_folder)) {}

  std::map<std::string, Outcome> Run(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      while (static_cast<int>(children_.size()) >= arguments_.jobs) Collect();
      Start(name);
    }
    while (!children_.empty()) Collect();
    return outcomes_;
  }

 private:
  void Start(const std::string& name) {
    int ends[2];
    if (pipe(ends) != 0) {
      perror("pipe");
      std::exit(1);
    }
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid < 0) {
      perror("fork");
      std::exit(1);
    }
    if (pid == 0) {
      close(ends[0]);
      alarm(kSecondsPerCase);
      const Outcome outcome =
          RunCase(arguments_.folder + "/" + name, arguments_.mode, work_folder_ + "/" + name);
      std::string text = std::to_string(static_cast<int>(outcome.kind)) + outcome.text;
      text.resize(std::min<size_t>(text.size(), 4000));  // fits into the pipe, which nobody reads yet
      const bool written =
          write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
      _exit(written ? 0 : 1);
    }
    close(ends[1]);
    children_[pid] = {name, ends[0]};
  }

  void Collect() {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, 0);
    const auto child = children_.find(pid);
    if (child == children_.end()) return;
    outcomes_[child->second.name] = OutcomeOf(child->second, status);
    close(child->second.pipe);
    children_.erase(child);
    if (isatty(STDERR_FILENO)) fmt::print(stderr, "\r{} cases", outcomes_.size());
  }

  Outcome OutcomeOf(const Child& child, int status) const {
    if (WIFSIGNALED(status)) {
      const int signal = WTERMSIG(status);
      const std::string why = signal == SIGALRM
                                  ? fmt::format("took more than {} s", kSecondsPerCase)
                                  : std::string(strsignal(signal));
      return {Outcome::Kind::kFailure, "crash: " + why};
    }
    char text[4096];
    const ssize_t length = read(child.pipe, text, sizeof(text));
    if (length < 1) {
      return {Outcome::Kind::kFailure, fmt::format("crash: exit code {}", WEXITSTATUS(status))};
    }
    return {static_cast<Outcome::Kind>(text[0] - '0'),
            std::string(text + 1, static_cast<size_t>(length - 1))};
  }

  const Arguments& arguments_;
  std::string work_folder_;
  std::map<pid_t, Child> children_;
  std::map<std::string, Outcome> outcomes_;
};

// Whether the outcome is a wrong answer for which the listed line, written by hand, gives the reason why another answer is right.
bool IsKnownToDiffer(const std::string& listed, const Outcome& outcome) {
  return outcome.kind == Outcome::Kind::kFailure && listed.starts_with("differs: ") &&
         outcome.text.starts_with("wrong: output ");
}

// Passing and unsupported cases, with the lines of cases that were not run and of those that are
// known to differ kept.
bool WriteList(const std::string& path, std::map<std::string, std::string> list,
               const std::map<std::string, Outcome>& outcomes) {
  for (const auto& [name, outcome] : outcomes) {
    if (IsKnownToDiffer(list[name], outcome)) continue;
    if (outcome.kind == Outcome::Kind::kFailure) list.erase(name);
    else list[name] = outcome.text;
  }
  std::ofstream file(path);
  for (const auto& [name, text] : list) file << name << ' ' << text << '\n';
  return file.good();
}

int Report(const Arguments& arguments, const std::map<std::string, Outcome>& outcomes) {
  std::map<std::string, std::string> list = ReadList(arguments.list);
  if (arguments.update) {
    if (!WriteList(arguments.list, list, outcomes)) {
      fmt::print(stderr, "cannot write {}\n", arguments.list);
      return 1;
    }
    list = ReadList(arguments.list);
  }
  int passed = 0, unsupported = 0, different = 0, failed = 0;
  for (const auto& [name, outcome] : outcomes) {
    const auto listed = list.find(name);
    const std::string expected = listed == list.end() ? "nothing" : listed->second;
    if (IsKnownToDiffer(expected, outcome)) {
      ++different;
    } else if (outcome.kind == Outcome::Kind::kFailure || outcome.text != expected) {
      ++failed;
      fmt::print("{}: {} (the list says: {})\n", name, outcome.text, expected);
    } else {
      ++(outcome.kind == Outcome::Kind::kPass ? passed : unsupported);
    }
  }
  for (const auto& [name, text] : list) {
    if (outcomes.count(name) != 0 || name.find(arguments.filter) == std::string::npos) continue;
    ++failed;
    fmt::print("{}: is listed but not there\n", name);
  }
  fmt::print("{} unsupported and {} different, as listed\n{} passed, {} failed\n", unsupported,
             different, passed, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace fusec

int main(int argc, char** argv) {
  fusec::Arguments arguments;
  if (!fusec::ParseArguments(argc, argv, arguments)) return fusec::Usage();
  if (!std::filesystem::is_directory(arguments.folder)) {
    fmt::print(stderr, "{}: no such folder\n", arguments.folder);
    return 2;
  }
  std::string work_folder = std::filesystem::temp_directory_path() / "fusec-conformance-XXXXXX";
  if (mkdtemp(work_folder.data()) == nullptr) {
    perror("mkdtemp");
    return 1;
  }
  const auto outcomes = fusec::Runner(arguments, work_folder).Run(fusec::CaseNames(arguments));
  std::filesystem::remove_all(work_folder);
  return fusec::Report(arguments, outcomes);
}
