#pragma once

#include <string>

namespace fusec {

// What the program of an artifact is for one value of an initializer only, as the program of the
// weights does not compute it again.
struct Specialization {
  enum class Kind {
    kDecided,  // a pass, or the importer, changed the graph by what the value is
    kEqual,    // it is stored as one with `constant`, which has the same elements
    kFrozen,   // a pass wrote `constant` down after its elements
  };
  Kind kind = Kind::kDecided;
  std::string tensor;  // the initializer, as the model calls it
  std::string hash;    // of its elements
  std::string pass;    // that did it, or "import"
  std::string constant = {};
  bool operator==(const Specialization&) const = default;
};

}  // namespace fusec
