#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/adt.h"

namespace fusec {

// A part of a file of codegen_templates/device, whole lines of it: a declaration with the comment
// above it, or a line of the preprocessor between declarations. The texts of all parts, one behind
// another, are the file.
struct DevicePart {
  enum class Kind {
    kNote,         // a comment followed by an empty line or an #if: what the file is about
    kDeclaration,  // a function, type, alias, constant, macro or OpenMP reduction
    kIf,           // #if, #ifdef or #ifndef
    kElse,
    kEndIf,
  };
  Kind kind = Kind::kDeclaration;
  std::string_view text;                // with the empty lines in front of it
  std::string_view name;                // what a declaration declares
  std::vector<std::string_view> words;  // of its code, sorted, each once
};

// Takes a device file apart. Ours are well formed; a FUSEC_CHECK fails for what this does not know.
std::vector<DevicePart> TakeApart(std::string_view file);

// What `code` uses of these files of codegen_templates/device, directly or through other
// declarations of them: each file under a line that names it, its parts in its order. Declarations
// of one name (overloads, specialisations, both branches of an #if) go together.
std::string DeviceFunctionsFor(std::string_view code, ArrayRef<std::string> files);

}  // namespace fusec
