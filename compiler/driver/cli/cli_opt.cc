#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>

#include "compiler/driver/cli/cli.h"
#include "compiler/ir/graph.h"
#include "compiler/support/nearest_name.h"
#include "compiler/support/read_file.h"
#include "compiler/support/terminal.h"
#include "passes/pass_manager.h"

namespace fusec {

namespace {

Result<std::string> ReadText(const std::string& path) {
  if (path == "-")
    return std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  return ReadWholeFile(path, ErrorKind::kModel);
}

void PrintPasses() {
  std::vector<std::vector<std::string>> rows = {{"pass", "what it does"}};
  for (const PassInfo& pass : AllPasses()) rows.push_back({pass.name, pass.summary});
  std::fputs(FormatTable(rows, "ll").c_str(), stdout);
}

}  // namespace

Result<int> RunOpt(const OptFlags& flags) {
  if (flags.passes == std::vector<std::string>{"help"}) {
    PrintPasses();
    return 0;
  }
  if (flags.file.empty()) return Fail(ErrorKind::kUsage, "FILE.ir is required (see fusec opt -h)");
  for (const std::string& name : flags.passes) {
    if (FindPass(name)) continue;
    std::vector<std::string> known;
    for (const PassInfo& pass : AllPasses()) known.push_back(pass.name);
    return Fail(ErrorKind::kUsage, "no pass is called \"" + name + "\"" + DidYouMean(name, known) +
                                       "; there are " + Join(known, ", "));
  }
  FUSEC_ASSIGN(const std::string text, ReadText(flags.file));
  auto graph = Parse(text);
  if (!graph) return Fail(ErrorKind::kModel, flags.file + ": " + graph.error().message);
  if (auto verified = Verify(**graph); !verified) {
    return Fail(ErrorKind::kModel, flags.file + ": " + verified.error().message);
  }
  PassManager manager;
  FUSEC_TRY(manager.Run(**graph, flags.passes));
  const std::string result = Print(**graph);
  if (flags.output.empty()) {
    std::fputs(result.c_str(), stdout);
    return 0;
  }
  errno = 0;
  std::ofstream file(flags.output, std::ios::binary);
  file << result;
  file.close();
  if (!file)
    return Fail(ErrorKind::kUsage, "cannot write " + flags.output + ": " + std::strerror(errno));
  return 0;
}

}  // namespace fusec
