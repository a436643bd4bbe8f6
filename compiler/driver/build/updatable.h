#pragma once

#include <map>
#include <string>

#include "compiler/ir/graph.h"
#include "compiler/support/adt.h"

namespace fusec {

// Whether one of `patterns`, which are globs as in a shell, matches `name`.
bool MatchesAny(ArrayRef<std::string> patterns, const std::string& name);

// Marks the constants that come from initializers whose names match one of `patterns`, globs as in
// a shell. `names` maps constants' names in the graph to those in the model. A pattern that matches
// no initializer is an error.
Result<void> MarkUpdatable(ArrayRef<std::string> patterns,
                           const std::map<std::string, std::string>& names, Graph& graph);

}  // namespace fusec
