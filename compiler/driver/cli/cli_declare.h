#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "compiler/driver/artifact/random_flags.h"
#include "compiler/driver/build/model_flags.h"
#include "compiler/support/result.h"

namespace fusec {

// Flags that several verbs have.

// Flags that take one value and may be repeated; commas separate values where `delimiter` is one.
void AddRepeated(CLI::App& app, const std::string& name, std::vector<std::string>& values,
                 const std::string& help, const std::string& type, char delimiter = '\0');
void AddDevice(CLI::App& app, std::string& device);
void AddModelFlags(CLI::App& app, ModelFlags& flags);
void AddRandomFlags(CLI::App& app, RandomFlags& flags);

// Verbs declare their flags on `app` and give what is to be done once they are parsed. These change
// an artifact; the others are where the command line is parsed.
using Command = std::function<Result<int>()>;
Command DeclareTune(CLI::App& app);
Command DeclareRefit(CLI::App& app);
Command DeclareEdit(CLI::App& app);
Command DeclareRebuild(CLI::App& app);

}  // namespace fusec
