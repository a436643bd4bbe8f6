#include "compiler/driver/build/model_flags.h"

#include "compiler/driver/artifact/tensor_files.h"
#include "compiler/driver/build/compile.h"
#include "compiler/support/nearest_name.h"
#include "compiler/support/terminal.h"

namespace fusec {

namespace {

Result<void> CheckFusion(const std::string& name) {
  const PassInfo* pass = FindPass(name);
  if (pass && pass->optional) return {};
  std::vector<std::string> known;
  for (const PassInfo& other : AllPasses()) {
    if (other.optional) known.push_back(other.name);
  }
  return Fail(ErrorKind::kUsage, "no fusion is called \"" + name + "\"" + DidYouMean(name, known) +
                                     "; there are " + Join(known, ", "));
}

Result<TableStorage> ParseTableStorage(const std::string& flag) {
  const size_t equals = flag.rfind('=');
  const auto known = Join(RowStorageNames(), ", ");
  if (equals == std::string::npos || equals == 0) {
    return Fail(ErrorKind::kUsage, "--table-storage " + flag +
                                       ": expected PATTERN=STORAGE, with a storage of " + known);
  }
  const std::string storage = flag.substr(equals + 1);
  if (const auto parsed = ParseRowStorage(storage))
    return TableStorage{flag.substr(0, equals), *parsed};
  return Fail(ErrorKind::kUsage, "--table-storage " + flag + ": no storage is called \"" + storage +
                                     "\"" + DidYouMean(storage, RowStorageNames()) +
                                     "; there are " + known);
}

}  // namespace

std::string AsPattern(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    if (std::string_view("*?[]\\").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

Result<void> ApplyModelFlags(const ModelFlags& flags, CompileOptions& options) {
  for (const std::string& name : flags.disabled_fusions) {
    FUSEC_TRY(CheckFusion(name));
    options.disabled_fusions.insert(name);
  }
  if (flags.keep_lora) options.disabled_fusions.insert("merge-lora");
  for (const std::string& freeze : flags.freezes) {
    const size_t equals = freeze.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Fail(ErrorKind::kUsage, "--freeze " + freeze + ": expected NAME=FILE.npy");
    }
    FUSEC_ASSIGN(TensorData data, ReadTensor(freeze.substr(equals + 1)));
    if (!options.frozen_inputs.emplace(freeze.substr(0, equals), std::move(data)).second) {
      return Fail(ErrorKind::kUsage, "--freeze " + freeze + ": expected every name only once");
    }
  }
  for (const std::string& flag : flags.table_storage) {
    FUSEC_ASSIGN(TableStorage storage, ParseTableStorage(flag));
    options.table_storage.push_back(std::move(storage));
  }
  options.updatable = flags.updatable;
  options.round_every_op = flags.round_every_op;
  if (flags.matmul_precision) options.matmul_precision = *flags.matmul_precision;
  if (flags.index_policy) options.index_policy = *flags.index_policy;
  return {};
}

}  // namespace fusec
