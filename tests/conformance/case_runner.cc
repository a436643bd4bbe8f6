#include "tests/conformance/case_runner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "compiler/import/import.h"
#include "compiler/import/tensor_file.h"
#include "tests/conformance/backend.h"
#include "tests/conformance/compare.h"

namespace fusec {
namespace {

Outcome Wrong(const std::string& text) { return {Outcome::Kind::kFailure, "wrong: " + text}; }

// An error on one line, without the name of the model's file.
std::string OneLine(std::string text, const std::string& model) {
  const std::string place = model + ": ";
  for (size_t at = text.find(place); at != std::string::npos; at = text.find(place)) {
    text.erase(at, place.size());
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n')) {
    text.replace(at, 1, "; ");
  }
  return text;
}

// The tensors of input_0.pb, input_1.pb, ..., as many as there are.
Result<std::vector<NamedTensor>> ReadTensors(const std::string& data_set, const std::string& stem) {
  std::vector<NamedTensor> tensors;
  for (int i = 0;; ++i) {
    const std::string path = fmt::format("{}/{}_{}.pb", data_set, stem, i);
    if (!std::filesystem::exists(path)) return tensors;
    FUSEC_ASSIGN(NamedTensor tensor, ReadTensorFile(path));
    tensors.push_back(std::move(tensor));
  }
}

// The fewest inputs that must be frozen so that the model can be imported; inputs of rank 0 and 1 are tried. If there is no such set, the
// error is that of an import with all of them frozen.
Result<FrozenInputs> ChooseFrozen(const std::string& model,
                                  const std::vector<NamedTensor>& inputs) {
  const auto imports = [&](const FrozenInputs& frozen) {
    return ImportOnnx(model, {.frozen_inputs = frozen});
  };
  FrozenInputs frozen;
  if (imports(frozen)) return frozen;
  for (const NamedTensor& input : inputs) {
    if (input.data.dims().size() <= 1 && !input.name.empty()) frozen[input.name] = input.data;
  }
  FUSEC_TRY(imports(frozen));
  for (const NamedTensor& input : inputs) {
    FrozenInputs fewer = frozen;
    if (fewer.erase(input.name) != 0 && imports(fewer)) frozen = std::move(fewer);
  }
  return frozen;
}

std::optional<Outcome> RunDataSet(Backend& backend, const std::string& model,
                                  const FrozenInputs& frozen,
                                  const std::vector<NamedTensor>& inputs,
                                  const std::string& data_set) {
  std::vector<TensorData> given;
  for (const NamedTensor& input : inputs) {
    if (frozen.count(input.name) == 0) given.push_back(input.data);
  }
  const Result<std::vector<NamedTensor>> expected = ReadTensors(data_set, "output");
  if (!expected) return Wrong(expected.error().message);
  const Result<std::vector<TensorData>> found = backend.Run(given);
  if (!found) return Wrong(OneLine(found.error().message, model));
  if (found->size() != expected->size()) {
    return Wrong(fmt::format("{} outputs, expected {}", found->size(), expected->size()));
  }
  for (size_t i = 0; i < found->size(); ++i) {
    if (const auto difference = Difference((*found)[i], (*expected)[i].data)) {
      return Wrong(fmt::format("output {}: {}", i, *difference));
    }
  }
  return std::nullopt;
}

}  // namespace

Outcome RunCase(const std::string& case_folder, Mode mode, const std::string& work_folder) {
  const std::string model = case_folder + "/model.onnx";
  std::vector<std::string> frozen_names;
  for (int set = 0;; ++set) {
    const std::string data_set = fmt::format("{}/test_data_set_{}", case_folder, set);
    if (set > 0 && !std::filesystem::exists(data_set)) break;
    const Result<std::vector<NamedTensor>> inputs = ReadTensors(data_set, "input");
    const Result<FrozenInputs> frozen =
        ChooseFrozen(model, inputs ? *inputs : std::vector<NamedTensor>());
    if (!frozen)
      return {Outcome::Kind::kUnsupported,
              "unsupported: " + OneLine(frozen.error().message, model)};
    if (!inputs) return Wrong(OneLine(inputs.error().message, model));
    Result<std::unique_ptr<Backend>> backend =
        mode == Mode::kInterpreter
            ? OpenInterpreter(model, *frozen)
            : OpenCompiled(model, *frozen, fmt::format("{}-{}", work_folder, set),
                           mode == Mode::kCuda ? "cuda" : "cpu");
    if (!backend) {
      const bool unsupported = backend.error().kind == ErrorKind::kModel;
      return {
          unsupported ? Outcome::Kind::kUnsupported : Outcome::Kind::kFailure,
          (unsupported ? "unsupported: " : "wrong: ") + OneLine(backend.error().message, model)};
    }
    if (std::optional<Outcome> failure = RunDataSet(**backend, model, *frozen, *inputs, data_set)) {
      return *failure;
    }
    if (set > 0) continue;
    for (const NamedTensor& input : *inputs) {
      if (frozen->count(input.name) != 0) frozen_names.push_back(input.name);
    }
  }
  if (frozen_names.empty()) return {Outcome::Kind::kPass, "pass"};
  return {Outcome::Kind::kPass, fmt::format("pass (frozen: {})", fmt::join(frozen_names, ", "))};
}

}  // namespace fusec
