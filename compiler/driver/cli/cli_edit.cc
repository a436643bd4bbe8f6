#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "compiler/driver/cli/cli.h"
#include "compiler/driver/edit/rebuild.h"
#include "compiler/driver/edit/working_copy.h"
#include "compiler/support/child_process.h"
#include "compiler/support/interrupt.h"
#include "compiler/support/terminal.h"

namespace fusec {

namespace {

std::string Editor() {
  for (const char* name : {"VISUAL", "EDITOR"}) {
    if (const char* editor = std::getenv(name); editor && *editor) return editor;
  }
  return "";
}

// Opens the files in the editor and returns its exit code. A shell starts the editor, because it
// may be a command with arguments.
int Open(const std::string& editor, ArrayRef<CopiedFile> files) {
  const std::string command = editor + " \"$@\"";
  std::vector<const char*> arguments = {"sh", "-c", command.c_str(), "sh"};
  for (const CopiedFile& file : files) arguments.push_back(file.path.c_str());
  arguments.push_back(nullptr);
  return RunInCopy([&] {
    execv("/bin/sh", const_cast<char**>(arguments.data()));
    return static_cast<int>(ErrorKind::kToolchain);
  });
}

}  // namespace

Result<int> RunEdit(const EditFlags& flags) {
  FUSEC_ASSIGN(const EditableArtifact artifact, ReadEditable(flags.artifact));
  const std::string folder = flags.copy.empty() ? WorkingCopyOf(flags.artifact) : flags.copy;
  std::vector<CopiedFile> files;
  if (flags.from.empty()) {
    FUSEC_ASSIGN(files, OpenWorkingCopy(artifact, flags.kernels, folder));
  } else {
    FUSEC_ASSIGN(files, TakeEditedFiles(artifact, flags.from, folder));
  }
  for (const CopiedFile& file : files) {
    std::printf("%s\n", file.path.c_str());
    if (file.was_there) PrintNote(file.path + " exists already, and is left as it is");
  }
  const std::string editor = Editor();
  if (flags.from.empty() && !editor.empty() && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) {
    if (Open(editor, files) != 0)
      return Fail(ErrorKind::kToolchain, "the editor \"" + editor + "\" failed");
  }
  const bool usual = folder == WorkingCopyOf(flags.artifact);
  PrintNote(std::string(flags.from.empty() ? "next: edit these files, then " : "next: ") +
            "fusec rebuild " + flags.artifact + (usual ? "" : " --edits " + folder));
  return 0;
}

Result<int> RunRebuild(const RebuildFlags& flags) {
  CatchInterrupts();
  return RebuildArtifact(flags);
}

}  // namespace fusec
