#pragma once

#include <string>
#include <string_view>

#include "compiler/emit/text_writer.h"
#include "compiler/kernel/kernel_plan.h"
#include "compiler/support/adt.h"

namespace fusec {

// Writes the statements of a kernel, one below the other.
void WriteStatements(TextWriter& out, ArrayRef<Statement> statements);

// What they have in common with the code around them.

// `type place = value`, or without a type.
CodeTokens& AddAssignment(CodeTokens& line, const std::string& type, const CExpr& place,
                          const CExpr& value, std::string_view op = "=");
// ` {`
CodeTokens& OpenBody(CodeTokens& line);
// Text of a model for a comment, which a line's end would end, and a backslash there would take on
// to the next line.
std::string InComment(std::string text);

}  // namespace fusec
