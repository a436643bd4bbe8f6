#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "compiler/support/result.h"

namespace fusec {

// Each function declares the flags of a verb on `app` and returns the command to run once they are
// parsed. The other verbs are declared in cli_parse.cc.
using Command = std::function<Result<int>()>;
Command DeclareTune(CLI::App& app);
Command DeclareRefit(CLI::App& app);
Command DeclareShard(CLI::App& app);
Command DeclareSign(CLI::App& app);
Command DeclareEdit(CLI::App& app);
Command DeclareRebuild(CLI::App& app);

}  // namespace fusec
