#include "compiler/emit/equal_kernels.h"

#include <map>
#include <set>
#include <string>

#include "compiler/emit/emit_kernel.h"
#include "compiler/kernel/statements.h"
#include "compiler/support/words.h"

namespace fusec {

namespace {

// Renames the parameters, arrays and locals of a plan to consecutive numbers, and replaces
// constants by their values, since constants with different meanings may be equal.
class Renaming {
 public:
  void Add(const std::string& name) { Add(name, "$" + std::to_string(numbers_.size())); }
  void Add(const std::string& name, const std::string& text) { numbers_.emplace(name, text); }

  CExpr Apply(const CExpr& expr) const {
    return expr.Renamed([&](std::string_view word) { return NewName(word); });
  }
  std::string Apply(const std::string& text) const {
    return ReplaceWords(text,
                        [&](std::string_view word, std::string_view) { return NewName(word); });
  }

 private:
  std::string NewName(std::string_view word) const {
    const auto found = numbers_.find(word);
    return found == numbers_.end() ? std::string(word) : found->second;
  }

  std::map<std::string, std::string, std::less<>> numbers_;
};

void AddLocals(const std::vector<Statement>& statements, Renaming& renaming) {
  ForEachStatement(statements, [&](const Statement& statement) {
    if (statement.kind == Statement::Kind::kLet || statement.kind == Statement::Kind::kDeclare)
      renaming.Add(LocalName(statement));
  });
}

void DropComments(std::vector<Statement>& statements) {
  std::erase_if(statements, [](const Statement& statement) {
    return statement.kind == Statement::Kind::kComment || statement.kind == Statement::Kind::kBlank;
  });
}

void Rename(const Renaming& renaming, std::vector<Statement>& statements) {
  DropComments(statements);
  ForEachStatement(statements, [&](Statement& statement) {
    statement.text = renaming.Apply(statement.text);
    ForEachExpr(statement, [&](CExpr& expr) { expr = renaming.Apply(expr); });
    DropComments(statement.body);
    DropComments(statement.otherwise);
  });
}

// A text that is equal for kernels that differ only in names and comments.
std::string TextWithoutNames(KernelPlan plan) {
  Renaming renaming;
  plan.name = "kernel";
  for (const KernelParameter& parameter : plan.parameters) renaming.Add(parameter.name);
  for (const NamedConstant& constant : plan.constants) {
    if (constant.is_array())
      renaming.Add(constant.name);
    else
      renaming.Add(constant.name, constant.type + "(" + constant.value.ToString() + ")");
  }
  std::erase_if(plan.constants, [](const NamedConstant& constant) { return !constant.is_array(); });
  AddLocals(plan.body, renaming);
  for (KernelParameter& parameter : plan.parameters)
    parameter.name = renaming.Apply(parameter.name);
  for (NamedConstant& constant : plan.constants)
    constant = {constant.type, renaming.Apply(constant.name), renaming.Apply(constant.value), ""};
  Rename(renaming, plan.body);
  std::string text = std::to_string(plan.shared_bytes);
  for (const std::string& file : plan.device_files) text += " " + file;
  return text + "\n" + EmitKernelCode(plan);
}

}  // namespace

void ShareEqualKernels(ProgramPlan& program) {
  std::map<std::string, KernelPlan*> first;  // by text
  for (Step& step : program.steps) {
    if (step.is_matmul) continue;
    const auto [found, is_new] = first.emplace(TextWithoutNames(step.kernel), &step.kernel);
    if (is_new || found->second->name == step.kernel.name) continue;
    step.kernel.same_as = found->second->name;
    found->second->also_as.push_back(step.kernel.name);
  }
}

std::vector<const KernelPlan*> FunctionsOf(const ProgramPlan& program) {
  std::vector<const KernelPlan*> kernels;
  std::set<std::string> names;
  for (const Step& step : program.steps) {
    if (!step.is_matmul && names.insert(step.kernel.function()).second)
      kernels.push_back(&step.kernel);
  }
  return kernels;
}

}  // namespace fusec
