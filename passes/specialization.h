#pragma once

#include <string>

namespace fusec {

// One way in which the program of an artifact depends on the value of an initializer. The weights
// program does not recompute it for new weights, so the program is right for this value only.
struct Specialization {
  enum class Kind {
    kDecided,  // a pass, or the importer, changed the graph depending on the value
    kEqual,    // it shares storage with `constant`, which has the same elements
    kFrozen,   // a pass computed `constant` from its elements, in a way that is not recorded
  };
  Kind kind = Kind::kDecided;
  std::string tensor;  // the model's name of the initializer
  std::string hash;    // of its elements
  std::string pass;    // the pass that specialized the program, or "import"
  std::string constant = {};
  bool operator==(const Specialization&) const = default;
};

}  // namespace fusec
