#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "compiler/driver/artifact/random_flags.h"
#include "compiler/driver/build/model_flags.h"
#include "compiler/driver/cli/cli.h"

namespace fusec {

// Declarations of flags that several verbs have.

// Flags that take one value and may be repeated; commas separate values where `delimiter` is one.
void AddRepeated(CLI::App& app, const std::string& name, std::vector<std::string>& values,
                 const std::string& help, const std::string& type, char delimiter = '\0');
void AddDevice(CLI::App& app, std::string& device);
void AddModelFlags(CLI::App& app, ModelFlags& flags);
// What a model is compiled for, and how.
void AddBuildFlags(CLI::App& app, CompileFlags& flags);
void AddRandomFlags(CLI::App& app, RandomFlags& flags);

}  // namespace fusec
