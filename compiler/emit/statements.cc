#include "compiler/emit/statements.h"

#include <algorithm>

namespace fusec {

std::string InComment(std::string text) {
  std::replace(text.begin(), text.end(), '\n', '?');
  std::replace(text.begin(), text.end(), '\\', '/');
  return text;
}

CodeTokens& OpenBody(CodeTokens& line) { return line.Space().Open("{"); }

CodeTokens& AddAssignment(CodeTokens& line, const std::string& type, const CExpr& place,
                          const CExpr& value, std::string_view op) {
  line.Begin(CodeToken::kAssignment);
  if (!type.empty()) line.Words(type).Space();
  return line.Add(place).Assign(op).Add(value).End();
}

namespace {

void WriteBlock(TextWriter& out, CodeTokens header, ArrayRef<Statement> body,
                const std::string& end) {
  out.Code(OpenBody(header));
  out.Indent();
  WriteStatements(out, body);
  out.Outdent();
  out.Line(end);
}

// `line` holds the text before the if.
void WriteIf(TextWriter& out, const Statement& statement, CodeTokens line) {
  line.Words("if").Space().Open("(").Add(statement.condition).Close(")");
  const bool is_short = statement.otherwise.empty() && statement.body.size() == 1 &&
                        statement.body[0].kind == Statement::Kind::kCall;
  if (is_short) {
    CodeTokens whole = line;
    whole.Space().Add(statement.body[0].value).Semicolon();
    if (out.Fits(whole.ToString())) return out.Code(whole);
  }
  out.Code(OpenBody(line));
  out.Indent();
  WriteStatements(out, statement.body);
  out.Outdent();
  const bool chained = statement.otherwise.size() == 1 &&
                       statement.otherwise[0].kind == Statement::Kind::kIf &&
                       !statement.otherwise[0].body.empty();
  if (chained) {
    WriteIf(out, statement.otherwise[0], CodeTokens().Close("}").Space().Words("else").Space());
    return;
  }
  if (!statement.otherwise.empty()) {
    out.Line("} else {");
    out.Indent();
    WriteStatements(out, statement.otherwise);
    out.Outdent();
  }
  out.Line("}");
}

// Writes x = x + y as `x += y;`, and so on. The order of the computation does not change.
void WriteAssignment(TextWriter& out, const CExpr& place, const CExpr& value) {
  const bool updates = value.IsBinary("+") || value.IsBinary("-") || value.IsBinary("*");
  const bool is_update = updates && value.operand(0).Is(place);
  CodeTokens line;
  if (is_update)
    AddAssignment(line, "", place, value.operand(1), value.word() + "=");
  else
    AddAssignment(line, "", place, value);
  out.Code(line.Semicolon());
}

CodeTokens ForHeader(const Statement& loop) {
  CodeTokens line;
  line.Words("for").Space().Open("(").Begin(CodeToken::kSemicolon);
  AddAssignment(line, loop.type.word(), loop.place, loop.value).Semicolon().Space();
  line.Add(loop.condition).Semicolon().Space();
  if (loop.step.empty())
    line.Words("++").Add(loop.place);
  else
    AddAssignment(line, "", loop.place, loop.step, "+=");
  return line.End().Close(")");
}

void WriteDefinition(TextWriter& out, const std::string& type, const Statement& s) {
  CodeTokens line;
  out.Code(AddAssignment(line, type, s.place, s.value).Semicolon());
}

void WriteStatement(TextWriter& out, const Statement& s) {
  switch (s.kind) {
    case Statement::Kind::kComment:
      out.Line("// " + InComment(s.text));
      return;
    case Statement::Kind::kBlank:
      out.Line("");
      return;
    case Statement::Kind::kLet:
      return WriteDefinition(out, "const " + s.type.ToString(), s);
    case Statement::Kind::kDeclare:
      if (s.value.empty()) return out.Declaration(s.type.ToString(), s.place.ToString());
      return WriteDefinition(out, s.type.ToString(), s);
    case Statement::Kind::kAssign:
      return WriteAssignment(out, s.place, s.value);
    case Statement::Kind::kUsing:
      return WriteDefinition(out, "using", s);
    case Statement::Kind::kCall:
      return out.Code(CodeTokens().Add(s.value).Semicolon());
    case Statement::Kind::kReturn:
      return out.Code(CodeTokens().Words("return").Space().Add(s.value).Semicolon());
    case Statement::Kind::kPragma:
      return out.Line(s.text);
    case Statement::Kind::kAwait:
    case Statement::Kind::kAwaitPrevious:
      return;
    case Statement::Kind::kIf:
      return WriteIf(out, s, {});
    case Statement::Kind::kFor:
      return WriteBlock(out, ForHeader(s), s.body, "}");
    case Statement::Kind::kLambda:
      return WriteBlock(out,
                        CodeTokens()
                            .Words("const auto")
                            .Space()
                            .Add(s.place)
                            .Assign()
                            .Open("[")
                            .Words("&")
                            .Close("]")
                            .Open("(")
                            .Words(s.text)
                            .Close(")"),
                        s.body, "};");
  }
}

}  // namespace

void WriteStatements(TextWriter& out, ArrayRef<Statement> statements) {
  for (const Statement& statement : statements) WriteStatement(out, statement);
}

}  // namespace fusec
