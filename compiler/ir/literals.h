#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/lexer.h"
#include "compiler/support/adt.h"

namespace fusec {

// The lower level of the IR parser: expected tokens, types, attributes and elements of constants.
// Each function starts at the lexer's current token and leaves the lexer at the first token that it
// did not consume.

Result<void> Expect(Lexer& lexer, std::string_view symbol);
Result<bool> Accept(Lexer& lexer, std::string_view symbol);  // whether it was found and consumed
Result<std::string> ExpectWord(Lexer& lexer, const std::string& what);
Result<std::string> ExpectString(Lexer& lexer, const std::string& what);
Result<int64_t> ExpectInt(Lexer& lexer, const std::string& what);

Result<TensorType> ParseType(Lexer& lexer);      // f32[batch, 13]
Result<Attribute> ParseAttribute(Lexer& lexer);  // spelled as AttributeText of printer.cc does

// An element of a constant as written. It is converted once the type is known.
struct Element {
  std::string text;
  bool is_bits = false;  // nan(BITS): `text` is BITS
};
Result<std::vector<Element>> ParseElements(Lexer& lexer);  // [1, 2.5, nan]
// Error messages name no place; the caller adds it.
Result<TensorData> MakeConstant(const TensorType& type, ArrayRef<Element> elements);

}  // namespace fusec
