#include <cstdio>
#include <string>

#include "compiler/driver/compile.h"

int main(int argc, char** argv) {
  fusec::CompileOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "-o") options.output_path = argv[++i];
    else if (argument == "--target") options.targets = {argv[++i]};
    else if (argument == "--dump-ir") options.dump_ir_directory = argv[++i];
    else options.model_path = argument;
  }
  auto report = fusec::CompileModel(options);
  if (!report) {
    std::fprintf(stderr, "fusec: error: %s\n", report.error().message.c_str());
    return static_cast<int>(report.error().kind);
  }
  for (const auto& [target, launches] : report->launches) std::printf("%s: %d -> %d launches\n", target.c_str(), report->launches_before, launches);
  std::printf("%.2f s\n", report->seconds);
  return 0;
}
