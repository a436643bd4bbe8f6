#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/adt.h"

namespace fusec {

// A part of a file of codegen_templates/device, in whole lines: a declaration with the comment
// above it, or a preprocessor line between declarations. The concatenated texts of all parts are
// the file.
struct DevicePart {
  enum class Kind {
    kNote,         // a comment before an empty line or an #if: describes the file
    kDeclaration,  // a function, type, alias, constant, macro or OpenMP reduction
    kIf,           // #if, #ifdef or #ifndef
    kElse,
    kEndIf,
  };
  Kind kind = Kind::kDeclaration;
  std::string_view text;                // with the empty lines before it
  std::string_view name;                // the name that a declaration declares
  std::vector<std::string_view> words;  // the words of its code, sorted, without duplicates
};

// Splits a device file into its parts. A FUSEC_CHECK fails if the file has a form that this does
// not know.
std::vector<DevicePart> TakeApart(std::string_view file);

// The parts of `files` of codegen_templates/device that `code` uses, directly or through other
// declarations. The parts of a file keep their order, below a line that names the file. All
// declarations of one name (overloads, specializations, both branches of an #if) are included
// together.
std::string DeviceFunctionsFor(std::string_view code, ArrayRef<std::string> files);

}  // namespace fusec
