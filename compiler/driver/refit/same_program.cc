#include "compiler/driver/refit/same_program.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "compiler/driver/artifact/artifact_ir.h"
#include "compiler/driver/artifact/constant_sources.h"
#include "compiler/package/artifact_folder.h"
#include "compiler/package/specializations.h"
#include "compiler/plan/kernel_name.h"
#include "compiler/plan/matmul/weight_panels.h"
#include "compiler/support/check.h"
#include "compiler/support/terminal.h"

namespace fusec {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kAgain = "; compile the model again";

// A tensor's name without the hash that is appended if the constants of two targets share a name.
std::string WithoutHash(const std::string& name) {
  constexpr size_t kHashDigits = 32;
  if (name.size() <= kHashDigits + 1 || name[name.size() - kHashDigits - 1] != '.') return name;
  const std::string end = name.substr(name.size() - kHashDigits);
  const bool is_hash = end.find_first_not_of("0123456789abcdef") == std::string::npos;
  return is_hash ? name.substr(0, name.size() - kHashDigits - 1) : name;
}

// The name of the constant that a stored tensor holds, which may be in any layout.
std::string ConstantOf(const std::string& name) {
  for (const WeightLayout layout : kWeightLayouts) {
    const std::string suffix = LayoutSuffix(layout);
    if (!suffix.empty() && name.ends_with(suffix))
      return name.substr(0, name.size() - suffix.size());
  }
  return name;
}

// The part of a manifest that depends neither on weights nor on machine code.
Json Program(const Json& manifest) {
  Json program = manifest;
  for (const char* key : {"hash", "files", "warnings", "model", "specialized", "fp8"})
    program.erase(key);
  program["buffers"] = PlainBuffers(manifest.at("buffers"));
  for (auto& [name, target] : program.at("targets").items()) target.erase("files");
  return program;
}

bool IsKernelText(const std::string& path) {
  return path.starts_with("kernels/") || path == "cpu/kernels.cc";
}

std::set<std::string> StoredTensors(const Json& manifest) {
  std::set<std::string> names;
  for (const Json& buffer : manifest.at("buffers")) {
    if (buffer.contains("tensor")) names.insert(WithoutHash(buffer.at("tensor")));
  }
  return names;
}

struct CodeLine {
  std::string text;    // without indentation
  std::string kernel;  // the kernel to which the line belongs
};

// The lines of a kernel text without comments and empty lines, followed by one that says "nothing".
std::vector<CodeLine> CodeLines(const std::string& text) {
  const std::string heading = "// kernel  : ";
  std::vector<CodeLine> code;
  std::string kernel;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(heading)) {
      const size_t end = line.find(' ', heading.size());
      kernel = line.substr(heading.size(), end - heading.size());
    }
    const size_t first = line.find_first_not_of(' ');
    if (first != std::string::npos && line.compare(first, 2, "//") != 0)
      code.push_back({"`" + line.substr(first) + "`", kernel});
  }
  code.push_back({"nothing", kernel});
  return code;
}

// Describes the first line of code in which two texts differ: "kernel k01_mul of kernels/k01_mul.cu
// would have `...` where it has `...`".
std::string FirstDifference(const std::string& path, const std::string& before,
                            const std::string& after) {
  const std::vector<CodeLine> old_lines = CodeLines(before), lines = CodeLines(after);
  const size_t most = std::min(old_lines.size(), lines.size()) - 1;
  size_t i = 0;
  while (i < most && old_lines[i].text == lines[i].text) ++i;
  const std::string where =
      old_lines[i].kernel.empty() ? path : "kernel " + old_lines[i].kernel + " of " + path;
  return where + " would have " + lines[i].text + " where it has " + old_lines[i].text;
}

std::string Quoted(ArrayRef<std::string> names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "\"" : ", \"") + name + "\"";
  return text;
}

const Specialization* FindAlike(ArrayRef<Specialization> all, const Specialization& wanted) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Specialization& one) {
    return one.kind == wanted.kind && one.tensor == wanted.tensor && one.pass == wanted.pass &&
           one.constant == wanted.constant;
  });
  return found == all.end() ? nullptr : &*found;
}

// Why a program that a pass specialized for a tensor's value may not be right for another value.
// `whose` is "the old" or "the new".
std::string WhyOfSpecialization(const Specialization& one, const char* whose) {
  switch (one.kind) {
    case Specialization::Kind::kDecided:
      return "tensor \"" + one.tensor + "\" has another value, and " + one.pass +
             " specialized the program for " + whose + " value";
    case Specialization::Kind::kEqual:
      return "tensor \"" + one.tensor + "\" equals \"" + one.constant + "\" with " + whose +
             " weights only, and " + one.pass + " stores the two as one";
    case Specialization::Kind::kFrozen:
      return "tensor \"" + one.tensor + "\" has another value, and " + one.pass + " computes \"" +
             one.constant + "\" from it";
  }
  return "";
}

class Comparison {
 public:
  Comparison(const EditableArtifact& artifact, const NewProgram& program)
      : artifact_(artifact), program_(program) {}

  Result<void> Check() const {
    if (Program(artifact_.original) == Program(program_.manifest) && !DifferingText()) return {};
    FUSEC_TRY(CheckVersion());
    FUSEC_TRY(CheckInterface());
    FUSEC_TRY(CheckNumbersInKernels());
    FUSEC_TRY(CheckSpecializations());
    FUSEC_TRY(CheckStoredTensors());
    if (const std::string why = DifferenceOfTexts(); !why.empty()) return Differs(why);
    return Differs("the two make different programs");
  }

 private:
  tl::unexpected<Error> Differs(const std::string& why) const {
    return Fail(ErrorKind::kModel,
                program_.weights + " does not fit " + artifact_.path + ": " + why + kAgain);
  }

  // The path of the first kernel text that differs from the artifact's; null if there is none.
  const std::string* DifferingText() const {
    const Json& hashes = artifact_.original.at("files");
    for (const auto& [path, text] : program_.contents.files) {
      if (!IsKernelText(path)) continue;
      if (hashes.value(path, "") != HashOf(text)) return &path;
    }
    return nullptr;
  }

  const KernelSource* SourceAt(const std::string& path) const {
    const auto found = std::find_if(artifact_.sources.begin(), artifact_.sources.end(),
                                    [&](const KernelSource& s) { return s.path == path; });
    return found == artifact_.sources.end() ? nullptr : &*found;
  }

  // Fails if another version of fusec compiled the artifact: this version then generates other
  // kernel texts from the artifact's own graph.
  Result<void> CheckVersion() const {
    FUSEC_ASSIGN(const auto texts, EmitAgain(artifact_.path, ""));
    const bool is_same = std::all_of(texts.begin(), texts.end(), [&](const auto& file) {
      return !IsKernelText(file.first) ||
             artifact_.original.at("files").value(file.first, "") == HashOf(file.second);
    });
    if (is_same) return {};
    return Fail(ErrorKind::kArtifact,
                artifact_.path + ": was compiled by another version of fusec" + kAgain);
  }

  Result<void> CheckInterface() const {
    for (const char* key : {"symbols", "inputs", "outputs", "opset"}) {
      if (artifact_.original.at(key) == program_.manifest.at(key)) continue;
      return Fail(ErrorKind::kModel, program_.weights + " does not fit " + artifact_.path +
                                         ": its " + key + " differ, so it is another model");
    }
    return {};
  }

  Result<void> CheckNumbersInKernels() const {
    std::set<std::string> stored;
    for (const std::string& tensor : StoredTensors(program_.manifest))
      stored.insert(ConstantOf(tensor));
    for (const TargetContents& target : program_.contents.targets) {
      FUSEC_ASSIGN(const auto old, ReadFusedGraph(artifact_.path, target.name));
      std::map<std::string, const Node*> known;
      for (const auto& node : old->nodes) {
        if (node->kind == OpKind::kConstant) known[node->result()->name] = node.get();
      }
      for (const auto& node : target.graph->nodes) {
        if (node->kind != OpKind::kConstant) continue;
        const std::string& name = node->result()->name;
        const auto same = known.find(name);
        if (same == known.end() || stored.count(name) != 0) continue;
        if (same->second->constant_hash == node->constant_hash) continue;
        return Differs("tensor \"" + name + "\"" + MadeOf(*node, NewTrace()) +
                       " has another value, and kernel " + ReaderOf(*target.graph, node->result()) +
                       " of " + target.name + " holds it as a number in its text");
      }
    }
    return {};
  }

  // Fails if a pass specialized the program for values of the old weights or of the new ones.
  Result<void> CheckSpecializations() const {
    const std::vector<Specialization> old = SpecializationsOf(artifact_.original);
    const std::vector<Specialization>& fresh = program_.contents.specializations;
    const std::string where = DifferenceOfTexts();
    const auto differs = [&](const Specialization& one, const char* whose) {
      return Differs(WhyOfSpecialization(one, whose) + (where.empty() ? "" : "; " + where));
    };
    if (!HasTrace()) return {};  // older versions of fusec did not record them
    for (const Specialization& one : old) {
      const Specialization* alike = FindAlike(fresh, one);
      const bool differs_in_value =
          one.kind != Specialization::Kind::kEqual && alike && alike->hash != one.hash;
      if (alike == nullptr || differs_in_value) return differs(one, "the old");
    }
    for (const Specialization& one : fresh) {
      if (FindAlike(old, one) == nullptr) return differs(one, "the new");
    }
    return {};
  }

  bool HasTrace() const { return artifact_.hashes.count(kWeightsProgram) != 0; }

  WeightsTrace NewTrace() const {
    auto program = Parse(program_.contents.files.at(kWeightsProgram));
    FUSEC_CHECK(program.has_value(), program.error().message);
    return WeightsTrace(*std::move(program));
  }

  // Such as " (made of "a", "b" by fold-constants)"; "" for a constant that no pass made.
  static std::string MadeOf(const Node& constant, const WeightsTrace& trace) {
    const auto sources = trace.SourcesOf(constant);
    if (!sources || sources->steps.empty()) return "";
    std::vector<std::string> passes;
    for (const ConstantSources::Step& step : sources->steps) {
      if (std::find(passes.begin(), passes.end(), step.pass) == passes.end())
        passes.push_back(step.pass);
    }
    const std::string of =
        sources->initializers.empty() ? "" : " of " + Quoted(sources->initializers);
    return " (made" + of + " by " + Join(passes, ", ") + ")";
  }

  // MadeOf the constant that is stored as `tensor`, followed by the kernel that reads it.
  static std::string StoryOf(const std::string& tensor, const Graph& graph,
                             const WeightsTrace& trace, const std::string& target) {
    for (const auto& node : graph.nodes) {
      if (node->kind != OpKind::kConstant) continue;
      const std::string& name = node->result()->name;
      if (tensor != name && !tensor.starts_with(name + ".")) continue;
      const std::string reader = ReaderOf(graph, node->result());
      if (reader == "?") continue;
      return MadeOf(*node, trace) + ", which kernel " + reader + " of " + target + " reads,";
    }
    return "";
  }

  Result<std::string> OldStoryOf(const std::string& tensor) const {
    if (!HasTrace()) return "";
    FUSEC_ASSIGN(auto program, ReadWeightsProgram(artifact_.path));
    const WeightsTrace trace(std::move(program));
    for (const TargetContents& target : program_.contents.targets) {
      FUSEC_ASSIGN(const auto graph, ReadFusedGraph(artifact_.path, target.name));
      const std::string story = StoryOf(tensor, *graph, trace, target.name);
      if (!story.empty()) return story;
    }
    return "";
  }

  Result<std::string> NewStoryOf(const std::string& tensor) const {
    for (const TargetContents& target : program_.contents.targets) {
      const std::string story = StoryOf(tensor, *target.graph, NewTrace(), target.name);
      if (!story.empty()) return story;
    }
    return "";
  }

  static std::string ReaderOf(const Graph& graph, const Value* constant) {
    size_t number = 0;
    for (const Node* region : RegionsOf(graph)) {
      const auto& operands = region->operands;
      if (std::find(operands.begin(), operands.end(), constant) != operands.end())
        return RegionName(*region, number);
      ++number;
    }
    return "?";
  }

  Result<void> CheckStoredTensors() const {
    const std::set<std::string> before = StoredTensors(artifact_.original);
    const std::set<std::string> after = StoredTensors(program_.manifest);
    for (const auto& [one, other, whose] :
         {std::tuple(&before, &after, "the old"), std::tuple(&after, &before, "the new")}) {
      for (const std::string& name : *one) {
        if (other->count(name) != 0) continue;
        FUSEC_ASSIGN(const std::string story, one == &before ? OldStoryOf(name) : NewStoryOf(name));
        return Differs(
            "tensor \"" + name + "\"" + story + " is stored with " + whose +
            " weights only: equal tensors are stored once, and dead columns are dropped");
      }
    }
    return {};
  }

  // Describes the first difference between kernel texts; "" if all texts are the same.
  std::string DifferenceOfTexts() const {
    const std::string* path = DifferingText();
    if (path == nullptr) return "";
    const KernelSource* source = SourceAt(*path);
    if (source == nullptr) return "it has no kernel " + *path;
    return FirstDifference(*path, source->original, program_.contents.files.at(*path));
  }

  const EditableArtifact& artifact_;
  const NewProgram& program_;
};

}  // namespace

Json PlainBuffers(const Json& buffers) {
  Json plain = buffers;
  for (Json& buffer : plain) {
    if (!buffer.contains("tensor")) continue;
    buffer["tensor"] = WithoutHash(buffer.at("tensor"));
    buffer["name"] = WithoutHash(buffer.at("name"));
  }
  return plain;
}

Result<void> CheckSameProgram(const EditableArtifact& artifact, const NewProgram& program) {
  return Comparison(artifact, program).Check();
}

}  // namespace fusec
