// Runs every tests/errors/fail_*.case: a command line that must fail with exactly this exit code
// and this text on stderr, and must leave no artifact behind. A case is one file:
//
//     # Why this must fail.
//     # run: fusec model.onnxtxt -o out --dim rows=1..8
//     # exit: 2
//     # ---- model.onnxtxt ----    any number of files for the folder in which the command runs
//     # ---- setup ----            a shell script that runs there first; $MODELS has real models
//     # ---- expected ----         stderr, line by line
//
// With FUSEC_UPDATE_EXPECTED=1 in the environment, what the program says replaces what was
// expected.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
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
      if (line.starts_with("# run: fusec ")) result.run = line.substr(13);
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

std::string Quoted(const std::string& text) { return "'" + text + "'"; }

int Shell(const fs::path& folder, const std::string& command) {
  const std::string models = (kFolder.parent_path().parent_path() / "models").string();
  const int status = std::system(
      ("cd " + Quoted(folder.string()) + " && MODELS=" + Quoted(models) + " " + command).c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class Errors : public testing::TestWithParam<std::string> {
 protected:
  Errors() : folder_(fs::path(testing::TempDir()) / ("fusec_errors_" + GetParam())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "work");
  }
  ~Errors() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_P(Errors, FailAsExpected) {
  const fs::path path = kFolder / (GetParam() + ".case");
  Case wanted = ReadCase(path);
  std::string* expected = wanted.Find("expected");
  ASSERT_TRUE(expected != nullptr && !wanted.run.empty() && !wanted.exit.empty());
  const fs::path work = folder_ / "work";
  for (const auto& [title, text] : wanted.sections) {
    if (title != "expected") std::ofstream((title == "setup" ? folder_ : work) / title) << text;
  }
  if (wanted.Find("setup") != nullptr) {
    ASSERT_EQ(Shell(work, "sh -eu ../setup"), 0);
  }

  const int code = Shell(work, std::string(Quoted(FUSEC_PROGRAM)) + " " + wanted.run +
                                   " >../stdout 2>../stderr </dev/null");
  const std::string said = ReadText(folder_ / "stderr");
  EXPECT_EQ(std::to_string(code), wanted.exit);
  EXPECT_FALSE(fs::exists(work / "out"));
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
