#include "compiler/driver/artifact/input_flags.h"

#include <algorithm>
#include <optional>

#include "compiler/support/adt.h"
#include "compiler/support/terminal.h"

namespace fusec {

namespace {

using runtime::Manifest;

// The inputs that the flags have given so far, in the manifest's order.
struct Given {
  std::vector<std::optional<TensorData>> tensors;
};

int FindInput(const Manifest& manifest, const std::string& name) {
  for (size_t i = 0; i < manifest.inputs.size(); ++i) {
    if (manifest.inputs[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

Result<void> Take(const Manifest& manifest, int number, TensorData data, const std::string& origin,
                  Given& given) {
  const runtime::TensorSignature& input = manifest.inputs[number];
  FUSEC_TRY(CheckInput(input, data, origin));
  if (given.tensors[number])
    return Fail(ErrorKind::kUsage, origin + ": input \"" + input.name + "\" is given twice");
  given.tensors[number] = std::move(data);
  return {};
}

Result<void> TakeNpz(const Manifest& manifest, const std::string& path, Given& given) {
  FUSEC_ASSIGN(NamedTensors tensors, ReadNpz(path));
  std::vector<std::string> others;
  for (auto& [name, data] : tensors) {
    const int number = FindInput(manifest, name);
    if (number < 0) {
      others.push_back(name);
      continue;
    }
    FUSEC_TRY(Take(manifest, number, std::move(data), path, given));
  }
  if (!others.empty()) PrintNote(path + ": not an input, left out: " + Join(others, ", "));
  return {};
}

// The value of every symbol that is a dim of a given input. Where inputs contradict each other, the
// first one counts, and the runtime reports the error.
DimValues SymbolsOf(const Manifest& manifest, const Given& given) {
  DimValues values;
  for (size_t i = 0; i < manifest.inputs.size(); ++i) {
    if (!given.tensors[i]) continue;
    for (size_t axis = 0; axis < manifest.inputs[i].shape.size(); ++axis) {
      const int symbol = manifest.inputs[i].shape[axis].AsSymbol();
      if (symbol >= 0)
        values.emplace(manifest.symbols[symbol].name, given.tensors[i]->dims()[axis]);
    }
  }
  return values;
}

tl::unexpected<Error> NotAFile(const std::string& flag) {
  return Fail(ErrorKind::kUsage, "--input " + flag + ": expected NAME=FILE.npy or FILE.npz");
}

}  // namespace

Result<Inputs> ChooseInputs(const Manifest& manifest, ArrayRef<std::string> input_flags,
                            bool random, ArrayRef<std::string> dim_flags,
                            const RandomFlags& random_flags) {
  constexpr int64_t kDefaultSize = 64;
  Given given{std::vector<std::optional<TensorData>>(manifest.inputs.size())};
  for (const std::string& flag : input_flags) {
    const size_t equals = flag.find('=');
    if (equals + 1 == flag.size()) return NotAFile(flag);
    const int number =
        equals == std::string::npos ? -1 : FindInput(manifest, flag.substr(0, equals));
    if (number >= 0) {
      const std::string path = flag.substr(equals + 1);
      FUSEC_ASSIGN(TensorData data, ReadTensor(path));
      FUSEC_TRY(Take(manifest, number, std::move(data), path, given));
    } else if (flag.ends_with(".npz")) {
      FUSEC_TRY(TakeNpz(manifest, flag, given));
    } else if (equals != std::string::npos) {
      return Fail(ErrorKind::kInput, "no input is called \"" + flag.substr(0, equals) + "\"; " +
                                         SignatureText(manifest.inputs, "inputs"));
    } else {
      return NotAFile(flag);
    }
  }
  if (!random && !dim_flags.empty())
    return Fail(ErrorKind::kUsage, "--dim needs --random: files have sizes of their own");

  FUSEC_ASSIGN(const auto cases, DimCases(dim_flags, ServedDimRanges(manifest), {kDefaultSize}));
  if (cases.size() != 1) return Fail(ErrorKind::kUsage, "--dim takes one size per dim here");
  DimValues dims = cases[0];
  for (const auto& [name, size] : SymbolsOf(manifest, given)) dims[name] = size;
  Inputs inputs;
  for (size_t i = 0; i < manifest.inputs.size(); ++i) {
    if (!given.tensors[i] && !random) {
      const std::string& name = manifest.inputs[i].name;
      const bool is_npz = input_flags.size() == 1 && input_flags[0].ends_with(".npz");
      return Fail(ErrorKind::kInput, "input \"" + name + "\" has no data (" +
                                         (is_npz ? input_flags[0] + " lacks it"
                                                 : "--input " + name + "=FILE.npy, or --random") +
                                         "); " + SignatureText(manifest.inputs, "inputs"));
    }
    if (!given.tensors[i]) {
      FUSEC_ASSIGN(given.tensors[i],
                   RandomInput(manifest, static_cast<int>(i), dims, random_flags));
    }
    inputs.push_back(*std::move(given.tensors[i]));
  }
  return inputs;
}

Result<Inputs> InputsFromNpz(const Manifest& manifest, const std::string& path) {
  return ChooseInputs(manifest, {path}, false, {}, {});
}

DimValues DimsOf(const Manifest& manifest, const Inputs& inputs) {
  DimValues dims;
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (size_t axis = 0; axis < inputs[i].dims().size(); ++axis) {
      const int symbol = manifest.inputs[i].shape[axis].AsSymbol();
      if (symbol >= 0) dims.emplace(manifest.symbols[symbol].name, inputs[i].dims()[axis]);
    }
  }
  return dims;
}

}  // namespace fusec
