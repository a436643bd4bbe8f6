#include "compiler/driver/cli/cli.h"
#include "compiler/driver/report/report.h"
#include "compiler/support/terminal.h"
#include "compiler/support/write_file.h"

namespace fusec {

Result<int> RunReport(const ReportFlags& flags) {
  FUSEC_ASSIGN(const ReportContents contents,
               ReadReport(flags.artifact, flags.target, flags.dims, flags.bench));
  FUSEC_ASSIGN(const std::string json, ReportJson(flags.artifact, contents));
  FUSEC_TRY(WriteWholeFile(flags.output, ReportPage(contents.explanation, json)));
  PrintNote(flags.output + ": " + Headline(contents.explanation));
  return 0;
}

}  // namespace fusec
