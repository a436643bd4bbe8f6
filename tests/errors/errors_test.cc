// Runs every tests/errors/*.case: a command line that must end with exactly the stated exit code and text on stderr. A command that fails
// must not change an existing file, and must not leave a new one. A case is one file:
//
//     # Why this must fail (fail_*), or is fine (accept_*).
//     # run: fusec model.onnxtxt -o out --dim rows=1..8          a line for the shell
//     # exit: 2
//     # ---- model.onnxtxt ----    any number of files for the folder in which the command runs
//     # ---- setup ----            a shell script that runs there first; see setup.sh
//     # ---- expected ----         stderr, line by line; HASH stands for a file's hash, FOLDER for
//                                  the folder of the test
//
// With FUSEC_UPDATE_EXPECTED=1 in the environment, the program's output replaces the expected text.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

namespace {

namespace fs = std::filesystem;
const fs::path kFolder = FUSEC_SOURCE_DIR "/tests/errors";

std::string ReadText(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct Case {
  std::string head, run, exit;
  std::vector<std::pair<std::string, std::string>> sections;  // title, text
  std::string* Find(const std::string& title) {
    for (auto& [name, text] : sections) {
      if (name == title) return &text;
    }
    return nullptr;
  }
};

Case ReadCase(const fs::path& path) {
  Case result;
  std::istringstream lines(ReadText(path));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# ---- ") && line.ends_with(" ----")) {
      result.sections.emplace_back(line.substr(7, line.size() - 12), "");
    } else if (!result.sections.empty()) {
      result.sections.back().second += line + "\n";
    } else {
      result.head += line + "\n";
      if (line.starts_with("# run: ")) result.run = line.substr(7);
      if (line.starts_with("# exit: ")) result.exit = line.substr(8);
    }
  }
  return result;
}

void WriteCase(const fs::path& path, const Case& written) {
  std::ofstream file(path, std::ios::binary);
  file << written.head;
  for (const auto& [title, text] : written.sections)
    file << "# ---- " << title << " ----\n" << text;
}

// Every file and folder below `folder`, with what it holds.
std::map<std::string, std::string> Snapshot(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const bool is_file = entry.is_regular_file() && !entry.is_symlink();
    files[entry.path().lexically_relative(folder)] = is_file ? ReadText(entry.path()) : "";
  }
  return files;
}

// The names of the files that differ between two snapshots.
std::string Changes(const std::map<std::string, std::string>& before,
                    const std::map<std::string, std::string>& after) {
  std::string changes;
  for (const auto& [name, bytes] : before) {
    const auto now = after.find(name);
    if (now == after.end())
      changes += "removed " + name + "\n";
    else if (now->second != bytes)
      changes += "changed " + name + "\n";
  }
  for (const auto& [name, bytes] : after) {
    if (!before.count(name)) changes += "new " + name + "\n";
  }
  return changes;
}

class Errors : public testing::TestWithParam<std::string> {
 protected:
  // Its own, as the same tests may run elsewhere at the same time.
  Errors()
      : folder_(fs::path(testing::TempDir()) /
                ("fusec_errors_" + std::to_string(getpid()) + "_" + GetParam())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "work");
    fs::create_directories(folder_ / "temporary");
  }
  ~Errors() override { fs::remove_all(folder_); }

  // Runs a script in the folder of the test; its exit code.
  int Shell(const std::string& script) const {
    std::ofstream(folder_ / "script")
        << "export PATH='" << fs::path(FUSEC_PROGRAM).parent_path().string() << "':$PATH TMPDIR='"
        << (folder_ / "temporary").string() << "' MODELS='" FUSEC_SOURCE_DIR "/models'"
        << " FUSEC='" FUSEC_PROGRAM "' PYTHON='" FUSEC_PYTHON "' FAKE_CUDA='" FUSEC_FAKE_CUDA "'\n"
        << script;
    const int status =
        std::system(("cd '" + (folder_ / "work").string() + "' && sh -eu ../script").c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  // stderr without the parts that differ from machine to machine.
  std::string Said() const {
    std::string said = ReadText(folder_ / "stderr");
    for (size_t at; (at = said.find(folder_.string())) != std::string::npos;)
      said.replace(at, folder_.string().size(), "FOLDER");
    // A sanitizer's own remark on an allocation that it refuses.
    said = std::regex_replace(
        said, std::regex("==[0-9]+==WARNING: [^\n]* failed to allocate [^\n]*\n"), "");
    return std::regex_replace(said, std::regex("[0-9a-f]{32}"), "HASH");
  }
  fs::path folder_;
};

TEST_P(Errors, EndAsExpected) {
  const fs::path path = kFolder / (GetParam() + ".case");
  Case wanted = ReadCase(path);
  std::string* expected = wanted.Find("expected");
  ASSERT_TRUE(expected != nullptr && !wanted.run.empty() && !wanted.exit.empty());
  const fs::path work = folder_ / "work";
  for (const auto& [title, text] : wanted.sections) {
    if (title != "expected") std::ofstream((title == "setup" ? folder_ : work) / title) << text;
  }
  if (wanted.Find("setup") != nullptr) {
    ASSERT_EQ(Shell(". '" + (kFolder / "setup.sh").string() + "'\n. ../setup\n"), 0);
  }

  const auto before = Snapshot(work);
  const int code = Shell("{ " + wanted.run + "\n} >../stdout 2>../stderr </dev/null\n");
  const std::string said = Said();
  EXPECT_EQ(std::to_string(code), wanted.exit);
  if (code != 0) {
    EXPECT_EQ(Changes(before, Snapshot(work)), "");
  }
  EXPECT_EQ(Changes({}, Snapshot(folder_ / "temporary")), "");
  if (std::getenv("FUSEC_UPDATE_EXPECTED") != nullptr) {
    *expected = said;
    WriteCase(path, wanted);
  }
  EXPECT_EQ(said, *expected);
}

std::vector<std::string> AllCases() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".case") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, Errors, testing::ValuesIn(AllCases()),
                         [](const auto& info) { return info.param; });

}  // namespace
