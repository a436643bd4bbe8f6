#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "compiler/driver/artifact/random_flags.h"
#include "compiler/driver/build/model_flags.h"
#include "compiler/driver/cli/cli.h"

namespace fusec {

// Declarations of flags that several verbs have.

// A flag that takes one value and may be repeated. If `delimiter` is given, it separates several
// values of one flag.
void AddRepeated(CLI::App& app, const std::string& name, std::vector<std::string>& values,
                 const std::string& help, const std::string& type, char delimiter = '\0');
void AddDevice(CLI::App& app, std::string& device);
void AddModelFlags(CLI::App& app, ModelFlags& flags);
// The flags of `fusec compile` and `fusec shard`: targets, dims, AddModelFlags and the CPU level.
void AddBuildFlags(CLI::App& app, CompileFlags& flags);
void AddRandomFlags(CLI::App& app, RandomFlags& flags);

}  // namespace fusec
