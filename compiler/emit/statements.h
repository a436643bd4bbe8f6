#pragma once

#include <string>
#include <string_view>

#include "compiler/emit/text_writer.h"
#include "compiler/kernel/kernel_plan.h"
#include "compiler/support/adt.h"

namespace fusec {

// Writes the statements of a kernel.
void WriteStatements(TextWriter& out, ArrayRef<Statement> statements);

// Helpers that emit_kernel.cc uses as well:

// `type place = value`, or without a type.
CodeTokens& AddAssignment(CodeTokens& line, const std::string& type, const CExpr& place,
                          const CExpr& value, std::string_view op = "=");
// ` {`
CodeTokens& OpenBody(CodeTokens& line);
// Makes text of a model safe for a comment: a line break would end the comment, and a backslash at
// the end would continue it on the next line.
std::string InComment(std::string text);

}  // namespace fusec
