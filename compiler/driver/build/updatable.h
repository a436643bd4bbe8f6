#pragma once

#include <map>
#include <string>

#include "compiler/ir/graph.h"
#include "compiler/support/adt.h"

namespace fusec {

// Whether one of `patterns` matches `name`, globs as shells have them.
bool MatchesAny(ArrayRef<std::string> patterns, const std::string& name);

// Marks the constants whose initializers have a name that one of `patterns` matches, globs as
// shells have them. `names`: the model's, by the graph's. A pattern that matches none is an error.
Result<void> MarkUpdatable(ArrayRef<std::string> patterns,
                           const std::map<std::string, std::string>& names, Graph& graph);

}  // namespace fusec
