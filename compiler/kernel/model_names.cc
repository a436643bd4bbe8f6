#include "compiler/kernel/model_names.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "compiler/index/variables.h"
#include "compiler/kernel/statements.h"
#include "compiler/support/kernel_words.h"
#include "compiler/support/words.h"

namespace fusec {

std::string FriendlyName(const std::string& value_name) {
  std::string name = value_name;
  if (size_t at = name.rfind("_output_"); at != std::string::npos && at > 0) name.resize(at);
  std::string out;
  for (char c : name) {
    const bool alnum = std::isalnum(static_cast<unsigned char>(c));
    if (alnum)
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!out.empty() && out.back() != '_')
      out += '_';
  }
  while (!out.empty() && out.back() == '_') out.pop_back();
  // Module paths repeat their parents: "top_top_0_gemm" becomes "top_0_gemm".
  if (size_t at = out.find('_'); at != std::string::npos && at > 0 &&
                                 out.compare(at + 1, at + 1, out.substr(0, at) + "_") == 0) {
    out = out.substr(at + 1);
  }
  if (out.size() > 32) {
    const size_t cut = out.find('_', out.size() - 32);
    out = cut == std::string::npos ? out.substr(out.size() - 32) : out.substr(cut + 1);
  }
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0]))) out = "value_" + out;
  return out;
}

std::string ModelName(const std::string& value_name) {
  return AsModelWord(FriendlyName(value_name));
}

std::string AsModelWord(const std::string& word) { return WithoutMarks(word) + kModelMark; }

bool IsOfModel(std::string_view word) { return word.find(kModelMark) != std::string_view::npos; }

std::string WithoutMarks(std::string text) {
  std::erase(text, kModelMark);
  return text;
}

std::string WordOfSymbol(const std::string& symbol) {
  return VariableOf(symbol).value_or(kModelMark + symbol);
}

namespace {

class ModelNames {
 public:
  explicit ModelNames(const KernelPlan& plan) {
    for (const KernelParameter& parameter : plan.parameters) {
      if (parameter.kind != KernelParameter::Kind::kDim) continue;
      Note(parameter.name);
      dims_.insert(parameter.name);
    }
    for (const KernelParameter& parameter : plan.parameters) Note(parameter.name);
    for (const NamedConstant& constant : plan.constants) {
      Note(constant.name);
      constant.value.ForEachName([&](std::string_view word) { Note(word); });
    }
    ForEachStatement(plan.body, [&](const Statement& statement) {
      if (statement.kind != Statement::Kind::kComment)
        ForEachWord(statement.text, [&](std::string_view word, size_t) { Note(word); });
      ForEachExpr(statement, [&](const CExpr& expr) {
        expr.ForEachName([&](std::string_view word) { Note(word); });
      });
    });
    // A name that stays unchanged must not be given to another word of the model.
    std::vector<std::string> aside;
    for (const std::string& word : words_) {
      std::string name = WithoutMarks(word);
      if (IsFree(name))
        Give(word, name);
      else
        aside.push_back(word);
    }
    for (const std::string& word : aside) Give(word, FirstFree(word));
  }

  void Rename(CExpr& expr) const {
    expr = expr.Renamed([&](std::string_view word) { return NameOf(word); });
  }
  void Rename(std::string& text) const {
    text =
        ReplaceWords(text, [&](std::string_view word, std::string_view) { return NameOf(word); });
  }

 private:
  void Note(std::string_view word) {
    if (!IsOfModel(word))
      taken_.emplace(word);
    else if (names_.emplace(word, "").second)
      words_.emplace_back(word);
  }

  // A constant may have the name of a constant of a device file that the kernel does not use.
  bool IsFree(const std::string& name) const {
    const bool is_kept = KernelWords().count(name) != 0 && !IsKernelConstant(name);
    return !is_kept && taken_.count(name) == 0;
  }

  void Give(const std::string& word, const std::string& name) {
    taken_.insert(name);
    names_[word] = name;
  }

  std::string FirstFree(const std::string& word) const {
    const std::string plain = WithoutMarks(word);
    const std::string stem = plain + (dims_.count(word) != 0    ? "_dim"
                                      : IsKernelConstant(plain) ? ""
                                                                : "_tensor");
    std::string name = stem;
    for (int i = 2; !IsFree(name); ++i) name = stem + "_" + std::to_string(i);
    return name;
  }

  // A word that appears only in comments needs no unique name.
  std::string NameOf(std::string_view word) const {
    const auto found = names_.find(word);
    return found == names_.end() ? WithoutMarks(std::string(word)) : found->second;
  }

  std::set<std::string> taken_;  // words of the kernel itself, and assigned names
  std::set<std::string> dims_;
  std::vector<std::string> words_;  // words of the model, in the order of the text
  std::map<std::string, std::string, std::less<>> names_;  // by word
};

}  // namespace

void NameModelWords(KernelPlan& plan) {
  const ModelNames names(plan);
  for (KernelParameter& parameter : plan.parameters) {
    names.Rename(parameter.name);
    names.Rename(parameter.comment);
  }
  for (NamedConstant& constant : plan.constants) {
    names.Rename(constant.name);
    names.Rename(constant.value);
    names.Rename(constant.comment);
  }
  for (std::string& line : plan.drawing) names.Rename(line);
  ForEachStatement(plan.body, [&](Statement& statement) {
    names.Rename(statement.text);
    ForEachExpr(statement, [&](CExpr& expr) { names.Rename(expr); });
  });
}

}  // namespace fusec
