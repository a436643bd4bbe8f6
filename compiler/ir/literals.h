#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/lexer.h"
#include "compiler/support/adt.h"

namespace fusec {

// The lower half of the IR parser: tokens with an expectation, types, attributes and constants' values. Each reads from the current
// token and leaves the lexer at the first one behind.

Result<void> Expect(Lexer& lexer, std::string_view symbol);
Result<bool> Accept(Lexer& lexer, std::string_view symbol);  // true, and read, if it is there
Result<std::string> ExpectWord(Lexer& lexer, const std::string& what);
Result<std::string> ExpectString(Lexer& lexer, const std::string& what);
Result<int64_t> ExpectInt(Lexer& lexer, const std::string& what);

Result<TensorType> ParseType(Lexer& lexer);       // f32[batch, 13]
Result<Attribute> ParseAttribute(Lexer& lexer);   // see AttributeText in printer.cc for the spellings

// An element of a constant as written, kept until its type is known.
struct Element {
  std::string text;
  bool is_bits = false;  // nan(BITS): text is the number
};
Result<std::vector<Element>> ParseElements(Lexer& lexer);  // [1, 2.5, nan]
// Errors are plain; the caller adds the place.
Result<TensorData> MakeConstant(const TensorType& type, ArrayRef<Element> elements);

}  // namespace fusec
