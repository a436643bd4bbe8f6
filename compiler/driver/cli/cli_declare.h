#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "compiler/support/result.h"

namespace fusec {

// Verbs declare their flags on `app` and give what is to be done once they are parsed. These change
// an artifact; the others are where the command line is parsed.
using Command = std::function<Result<int>()>;
Command DeclareTune(CLI::App& app);
Command DeclareRefit(CLI::App& app);
Command DeclareShard(CLI::App& app);
Command DeclareSign(CLI::App& app);
Command DeclareEdit(CLI::App& app);
Command DeclareRebuild(CLI::App& app);

}  // namespace fusec
