#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// A pattern of ops to search for in a graph, in the syntax of IR op names:
//
//   div(e: exp(sub(x, reduce_max(x))), reduce_sum(e))
//
// A name matches any value, but the same value at each occurrence; "name: op(..)" names the result
// of an op. `_` matches any value, and `fixed` a value that does not depend on data. The two
// operands of a commutative op may be swapped. Views and casts before an operand are skipped.
class OpPattern {
 public:
  explicit OpPattern(std::string_view text);

  // The matched nodes, the root first, if the pattern matches with `root` as its root; else
  // nullopt.
  std::optional<std::vector<const Node*>> Match(const Node& root, const ValueSet& fixed) const;

 private:
  struct Term {
    std::string name;            // "" if none; or "_" or "fixed"
    std::optional<OpKind> kind;  // nullopt if the term is just a name
    std::vector<Term> operands;
  };
  class Parser;
  class Matcher;

  Term root_;
};

// Whether the op only rearranges the elements of one operand.
bool IsView(const Node& node);
// Follows a value back through views and casts.
const Value* Viewed(const Value* value);

}  // namespace fusec
