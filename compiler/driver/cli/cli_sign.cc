#include <fmt/format.h>

#include "compiler/driver/cli/cli.h"
#include "compiler/driver/sign/sign.h"
#include "compiler/support/interrupt.h"
#include "compiler/support/terminal.h"

namespace fusec {

Result<int> RunSign(const SignFlags& flags) {
  CatchInterrupts();
  FUSEC_ASSIGN(const size_t files, SignArtifact(flags.artifact, flags.key));
  PrintNote(fmt::format("signed {} of {} with {}", Plural(static_cast<int64_t>(files), "file"),
                        flags.artifact, flags.key));
  return 0;
}

}  // namespace fusec
