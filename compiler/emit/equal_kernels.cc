#include "compiler/emit/equal_kernels.h"

#include <cctype>
#include <map>
#include <set>
#include <string>

#include "compiler/emit/emit_kernel.h"

namespace fusec {

namespace {

// Gives what a plan names (parameters, constants, locals) the numbers in which it comes.
class Renaming {
 public:
  void Add(std::string& name) {
    name = numbers_.emplace(name, "$" + std::to_string(numbers_.size())).first->second;
  }

  // Members keep their names, which are those of a type.
  std::string Apply(const std::string& text) const {
    std::string out;
    for (size_t at = 0; at < text.size();) {
      size_t end = at;
      while (end < text.size() && IsWordCharacter(text[end])) ++end;
      if (end == at) {
        out += text[at++];
        continue;
      }
      const std::string word = text.substr(at, end - at);
      const bool is_member = out.ends_with(".") || out.ends_with("->");
      const auto found = is_member ? numbers_.end() : numbers_.find(word);
      out += found != numbers_.end() ? found->second : word;
      at = end;
    }
    return out;
  }

 private:
  static bool IsWordCharacter(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  }

  std::map<std::string, std::string> numbers_;
};

void AddLocals(std::vector<Statement>& statements, Renaming& renaming) {
  for (Statement& statement : statements) {
    std::string name = statement.name;
    if (statement.kind == Statement::Kind::kLet || statement.kind == Statement::Kind::kDeclare)
      renaming.Add(name);
    AddLocals(statement.body, renaming);
    AddLocals(statement.otherwise, renaming);
  }
}

void Rename(const Renaming& renaming, std::vector<Statement>& statements) {
  std::erase_if(statements, [](const Statement& statement) {
    return statement.kind == Statement::Kind::kComment || statement.kind == Statement::Kind::kBlank;
  });
  for (Statement& statement : statements) {
    for (std::string* text : {&statement.type, &statement.name, &statement.text})
      *text = renaming.Apply(*text);
    Rename(renaming, statement.body);
    Rename(renaming, statement.otherwise);
  }
}

// The same text for kernels that differ in names and comments alone.
std::string TextWithoutNames(KernelPlan plan) {
  Renaming renaming;
  plan.name = "kernel";
  for (KernelParameter& parameter : plan.parameters) renaming.Add(parameter.name);
  for (NamedConstant& constant : plan.constants) {
    renaming.Add(constant.name);
    constant.comment.clear();
  }
  AddLocals(plan.body, renaming);
  for (NamedConstant& constant : plan.constants) constant.value = renaming.Apply(constant.value);
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
