#include "compiler/driver/refit/same_program.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "compiler/driver/artifact/artifact_ir.h"
#include "compiler/package/artifact_folder.h"
#include "compiler/plan/kernel_name.h"

namespace fusec {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kAgain = "; compile the model again";

// A constant's name in the weights without the hash that two targets' constants of one name have.
std::string PlainName(const std::string& name) {
  constexpr size_t kHashDigits = 32;
  if (name.size() <= kHashDigits + 1 || name[name.size() - kHashDigits - 1] != '.') return name;
  const std::string end = name.substr(name.size() - kHashDigits);
  const bool is_hash = end.find_first_not_of("0123456789abcdef") == std::string::npos;
  return is_hash ? name.substr(0, name.size() - kHashDigits - 1) : name;
}

// What of a manifest neither weights nor machine code decide.
Json Program(const Json& manifest) {
  Json program = manifest;
  for (const char* key : {"hash", "files", "warnings", "model", "specialized"}) program.erase(key);
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
    if (buffer.contains("tensor")) names.insert(PlainName(buffer.at("tensor")));
  }
  return names;
}

// The lines of a text that are code, without what they are indented by.
std::vector<std::string> CodeLines(const std::string& text) {
  std::vector<std::string> code;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find_first_not_of(' ');
    if (first != std::string::npos && line.compare(first, 2, "//") != 0)
      code.push_back("`" + line.substr(first) + "`");
  }
  code.push_back("nothing");
  return code;
}

// The first line of code in which two texts differ, of each.
std::pair<std::string, std::string> FirstDifference(const std::string& a, const std::string& b) {
  const std::vector<std::string> lines_a = CodeLines(a), lines_b = CodeLines(b);
  const size_t most = std::min(lines_a.size(), lines_b.size()) - 1;
  size_t i = 0;
  while (i < most && lines_a[i] == lines_b[i]) ++i;
  return {lines_a[i], lines_b[i]};
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
    FUSEC_TRY(CheckStoredTensors());
    if (const std::string* path = DifferingText()) return TextDiffers(*path);
    return Differs("the two make different programs");
  }

 private:
  tl::unexpected<Error> Differs(const std::string& why) const {
    return Fail(ErrorKind::kModel,
                program_.weights + " does not fit " + artifact_.path + ": " + why + kAgain);
  }

  // The path of the first kernel text that is not the artifact's; null if there is none.
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

  // Another fusec would write other text for the artifact's own graph, too.
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
                                         ": its " + key + " are others, as of another model");
    }
    return {};
  }

  Result<void> CheckNumbersInKernels() const {
    const std::set<std::string> stored = StoredTensors(program_.manifest);
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
        return Differs("tensor \"" + name + "\" has another value, and kernel " +
                       ReaderOf(*target.graph, node->result()) + " of " + target.name +
                       " holds it as a number in its text");
      }
    }
    return {};
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
        return Differs("tensor \"" + name + "\" is stored with " + whose +
                       " weights only, as equal tensors share one and dead columns go");
      }
    }
    return {};
  }

  Result<void> TextDiffers(const std::string& path) const {
    const KernelSource* source = SourceAt(path);
    if (source == nullptr) return Differs("it has no kernel " + path);
    const auto [before, after] =
        FirstDifference(source->original, program_.contents.files.at(path));
    return Differs(path + " would have " + after + " where it has " + before);
  }

  const EditableArtifact& artifact_;
  const NewProgram& program_;
};

}  // namespace

Json PlainBuffers(const Json& buffers) {
  Json plain = buffers;
  for (Json& buffer : plain) {
    if (!buffer.contains("tensor")) continue;
    buffer["tensor"] = PlainName(buffer.at("tensor"));
    buffer["name"] = PlainName(buffer.at("name"));
  }
  return plain;
}

Result<void> CheckSameProgram(const EditableArtifact& artifact, const NewProgram& program) {
  return Comparison(artifact, program).Check();
}

}  // namespace fusec
