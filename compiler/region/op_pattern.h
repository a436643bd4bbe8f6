#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// A tree of ops that a graph may hold, written as the IR writes them:
//
//   div(e: exp(sub(x, reduce_max(x))), reduce_sum(e))
//
// A name stands for any value, and for the same one each time; with a colon it is of what an op
// makes. `_` stands for any value, and `fixed` for one that data has no part in. Operands of an op
// that is commutative may change places. Views and casts may stand before any operand.
class OpPattern {
 public:
  explicit OpPattern(std::string_view text);

  // The nodes of the ops, the root's first, if it is `root`; nullopt where they are others.
  std::optional<std::vector<const Node*>> Match(const Node& root, const ValueSet& fixed) const;

 private:
  struct Term {
    std::string name;            // "" without; "_" and "fixed"
    std::optional<OpKind> kind;  // none of a name alone
    std::vector<Term> operands;
  };
  class Parser;
  class Matcher;

  Term root_;
};

// One operand's elements in other places.
bool IsView(const Node& node);
// What a value is a view or a cast of.
const Value* Viewed(const Value* value);

}  // namespace fusec
