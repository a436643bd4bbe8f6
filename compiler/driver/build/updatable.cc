#include "compiler/driver/build/updatable.h"

#include <algorithm>

#include "compiler/support/glob.h"
#include "compiler/support/nearest_name.h"

namespace fusec {

bool MatchesAny(ArrayRef<std::string> patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return MatchesGlob(pattern, name); });
}

Result<void> MarkUpdatable(ArrayRef<std::string> patterns,
                           const std::map<std::string, std::string>& names, Graph& graph) {
  for (const std::string& pattern : patterns) {
    bool found = false;
    std::vector<std::string> initializers;
    for (const auto& node : graph.nodes) {
      const auto name =
          node->kind == OpKind::kConstant ? names.find(node->result()->name) : names.end();
      if (name == names.end()) continue;
      initializers.push_back(name->second);
      if (!MatchesAny(pattern, name->second)) continue;
      node->attributes[kUpdatable] = node->result()->name;
      found = true;
    }
    if (found) continue;
    return Fail(ErrorKind::kUsage, "--updatable " + pattern + " matches no initializer" +
                                       DidYouMean(pattern, initializers));
  }
  return {};
}

}  // namespace fusec
