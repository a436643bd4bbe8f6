#include "runtime/src/artifact/manifest.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "runtime/src/artifact/bind_symbols.h"
#include "runtime/src/artifact/dtype.h"
#include "runtime/src/artifact/in_place.h"
#include "runtime/src/artifact/json_reader.h"
#include "runtime/src/artifact/manifest_hash.h"
#include "runtime/src/artifact/run_time_sizes.h"
#include "runtime/src/artifact/step_buffers.h"
#include "runtime/src/artifact/step_order.h"

namespace fusec::runtime {
namespace {

constexpr int64_t kVersion = 5;  // version 4 has transposed adapter matrices in slots
constexpr int64_t kLargest = int64_t{1} << 62;

template <class T>
using List = std::vector<T>;

StatusOr<fusec_dtype> ReadDtype(const JsonValue& object) {
  FUSEC_RT_ASSIGN(const auto field, object.Field("dtype"));
  FUSEC_RT_ASSIGN(const auto name, field.AsText());
  const auto dtype = ParseDtype(name);
  if (!dtype) return field.Unexpected("a dtype");
  return *dtype;
}

// Checks that a path stays inside the artifact's folder.
StatusOr<std::string> CheckPath(const JsonValue& value, std::string path) {
  const bool leaves = path.empty() || path.front() == '/' || path == ".." ||
                      path.starts_with("../") || path.ends_with("/..") ||
                      path.find("/../") != std::string::npos;
  if (leaves) return value.Unexpected("a path inside the artifact");
  return path;
}

StatusOr<bool> ReadFlag(const JsonValue& item, std::string_view key, bool if_missing = false) {
  return item.Has(key) ? ReadBool(item, key) : StatusOr<bool>(if_missing);
}

StatusOr<Symbol> ReadSymbol(const JsonValue& item) {
  Symbol symbol;
  FUSEC_RT_ASSIGN(symbol.name, ReadText(item, "name"));
  FUSEC_RT_ASSIGN(symbol.min, ReadInt(item, "min", 0, kLargest));
  FUSEC_RT_ASSIGN(symbol.max, ReadInt(item, "max", symbol.min, kLargest));
  return symbol;
}

class ManifestReader {
 public:
  ManifestReader(const JsonValue& root, Manifest& manifest) : root_(root), manifest_(manifest) {}

  Status Read() {
    FUSEC_RT_TRY(ReadHead());
    FUSEC_RT_ASSIGN(manifest_.symbols, ReadList(root_, "symbols", ReadSymbol));
    symbols_ = manifest_.SymbolNames();
    for (size_t i = 0; i < symbols_.size(); ++i) {
      if (std::count(symbols_.begin(), symbols_.end(), symbols_[i]) > 1) {
        return Fail(FUSEC_BAD_ARTIFACT, root_.where(), "symbols has \"", symbols_[i], "\" twice");
      }
    }
    FUSEC_RT_ASSIGN(manifest_.buffers, ReadList(root_, "buffers", [this](const JsonValue& item) {
                      return ReadBuffer(item);
                    }));
    FUSEC_RT_TRY(CheckInPlace(manifest_, root_.where()));
    FUSEC_RT_ASSIGN(manifest_.tables, ReadTables(root_, manifest_.buffers));
    FUSEC_RT_ASSIGN(manifest_.row_caches, ReadRowCaches(root_, manifest_.buffers));
    FUSEC_RT_ASSIGN(manifest_.adapters, ReadAdapters(root_, manifest_.buffers));
    FUSEC_RT_TRY(ReadSignature("inputs", BufferKind::kInput, manifest_.inputs));
    FUSEC_RT_TRY(ReadSignature("outputs", BufferKind::kOutput, manifest_.outputs));
    for (size_t i = 0; i < symbols_.size(); ++i) {
      manifest_.symbols[i].serves_empty = EmptiesOutputs(manifest_, i);
    }
    FUSEC_RT_ASSIGN(manifest_.index_sites,
                    ReadList(root_, "index_sites",
                             [this](const JsonValue& item) { return ReadIndexSite(item); }));
    FUSEC_RT_TRY(CheckSymbolsAreBound());
    FUSEC_RT_TRY(ReadTargets());
    return ReadFiles();
  }

 private:
  Status ReadHead() {
    FUSEC_RT_ASSIGN(const auto format, root_.Field("format"));
    FUSEC_RT_ASSIGN(const auto format_name, format.AsText());
    if (format_name != "fusec-artifact") return format.Unexpected("\"fusec-artifact\"");
    FUSEC_RT_ASSIGN(const auto version_field, root_.Field("version"));
    FUSEC_RT_ASSIGN(const auto version, version_field.AsInt(0, kLargest));
    if (version != kVersion) {
      return version_field.Unexpected(Text(kVersion, "; compile the model with this release"));
    }
    FUSEC_RT_ASSIGN(manifest_.model, ReadText(root_, "model"));
    FUSEC_RT_TRY(ReadWord("matmul_precision", {"highest", "high", "medium", "fp8"},
                          manifest_.matmul_precision));
    // Older artifacts lack these keys.
    if (root_.Has("rounding"))
      FUSEC_RT_TRY(ReadWord("rounding", {"stores", "every op"}, manifest_.rounding));
    if (root_.Has("index_policy")) {
      FUSEC_RT_TRY(
          ReadWord("index_policy", {"error", "clamp", "wrap", "zero"}, manifest_.index_policy));
    }
    FUSEC_RT_ASSIGN(manifest_.batch_invariant, ReadFlag(root_, "batch_invariant"));
    return {};
  }
  Status ReadWord(std::string_view key, std::initializer_list<std::string_view> words,
                  std::string& word) {
    FUSEC_RT_TRY(ReadChoice<int>(root_, key, words));
    FUSEC_RT_ASSIGN(word, ReadText(root_, key));
    return {};
  }

  StatusOr<DimExpression> AsDim(const JsonValue& value) {
    FUSEC_RT_ASSIGN(const auto text, value.AsText());
    auto dim = DimExpression::Parse(text, symbols_);
    if (!dim) return Fail(FUSEC_BAD_ARTIFACT, value.where(), ": ", dim.error().message);
    return dim;
  }
  StatusOr<DimExpression> ReadDim(const JsonValue& object, std::string_view key) {
    FUSEC_RT_ASSIGN(const auto field, object.Field(key));
    return AsDim(field);
  }
  StatusOr<List<DimExpression>> ReadShape(const JsonValue& object) {
    return ReadList(object, "shape", [this](const JsonValue& item) { return AsDim(item); });
  }

  StatusOr<int> AsBuffer(const JsonValue& value) {
    FUSEC_RT_ASSIGN(const auto index, value.AsInt(INT64_MIN, INT64_MAX));
    const auto count = static_cast<int64_t>(manifest_.buffers.size());
    if (index < 0 || index >= count) {
      return value.Unexpected(Text("one of the ", count, " buffers"));
    }
    return static_cast<int>(index);
  }
  StatusOr<int> ReadBufferIndex(const JsonValue& object, std::string_view key) {
    FUSEC_RT_ASSIGN(const auto field, object.Field(key));
    return AsBuffer(field);
  }

  StatusOr<Buffer> ReadBuffer(const JsonValue& item) {
    Buffer buffer;
    FUSEC_RT_ASSIGN(buffer.name, ReadText(item, "name"));
    FUSEC_RT_ASSIGN(const int kind,
                    ReadPosition(item, "kind",
                                 {"input", "output", "constant", "arena", "sizes", "in_place"}));
    // The buffers of run-time sizes and of outputs in place have kinds of their own, so that a
    // loader that does not support them refuses the artifact instead of taking upper bounds for
    // sizes, or a part of an output for all of it. Here they are treated like other outputs.
    constexpr int kSizes = 4, kInPlace = 5;
    buffer.kind = kind >= kSizes ? BufferKind::kOutput : static_cast<BufferKind>(kind);
    if (kind == kInPlace) {
      FUSEC_RT_ASSIGN(const auto input, ReadInt(item, "input", 0, INT32_MAX));
      buffer.in_place_of = static_cast<int>(input);
    }
    FUSEC_RT_ASSIGN(buffer.dtype, ReadDtype(item));
    FUSEC_RT_ASSIGN(buffer.elements, ReadDim(item, "elements"));
    if (buffer.kind != BufferKind::kConstant) return buffer;
    FUSEC_RT_ASSIGN(buffer.tensor, ReadText(item, "tensor"));
    if (item.Has("placement")) {
      FUSEC_RT_ASSIGN(const int place, ReadPosition(item, "placement", {"device", "host"}));
      buffer.on_host = place == 1;
    }
    if (!buffer.elements.IsConstant()) {
      FUSEC_RT_ASSIGN(const auto elements, item.Field("elements"));
      return elements.Unexpected("a number, because the buffer is constant");
    }
    return buffer;
  }

  Status ReadIndexLimits(const JsonValue& item, TensorSignature& tensor) {
    auto read = [this](const JsonValue& limit) { return AsDim(limit); };
    FUSEC_RT_ASSIGN(tensor.index_limits, ReadList(item, "index_limits", read));
    if (tensor.index_limits.size() == 1) return {};
    const auto last = static_cast<int64_t>(tensor.shape.size()) - 1;
    FUSEC_RT_ASSIGN(const int64_t axis, ReadInt(item, "index_axis", 0, last));
    tensor.index_axis = static_cast<int>(axis);
    const std::string places = std::to_string(tensor.index_limits.size());
    if (tensor.shape[axis].text() == places) return {};
    return Fail(FUSEC_BAD_ARTIFACT, item.where(), ".index_limits has ", places,
                " limits, expected 1 or ", tensor.shape[axis].text());
  }

  Status ReadSignature(std::string_view key, BufferKind kind, List<TensorSignature>& signature) {
    std::set<int> seen;
    std::set<std::string> names;
    auto read = [&](const JsonValue& item) -> StatusOr<TensorSignature> {
      TensorSignature tensor;
      FUSEC_RT_ASSIGN(tensor.name, ReadText(item, "name"));
      FUSEC_RT_ASSIGN(tensor.dtype, ReadDtype(item));
      FUSEC_RT_ASSIGN(tensor.shape, ReadShape(item));
      FUSEC_RT_ASSIGN(tensor.buffer, ReadBufferIndex(item, "buffer"));
      if (item.Has("index_limits")) FUSEC_RT_TRY(ReadIndexLimits(item, tensor));
      FUSEC_RT_ASSIGN(tensor.ascending, ReadFlag(item, "ascending"));
      if (item.Has("total")) {
        FUSEC_RT_ASSIGN(tensor.total, ReadDim(item, "total"));
      }
      FUSEC_RT_ASSIGN(tensor.sizes, ReadSizeNumbers(item));
      FUSEC_RT_ASSIGN(const auto field, item.Field("buffer"));
      const Buffer& buffer = manifest_.buffers[tensor.buffer];
      if (buffer.kind != kind || !seen.insert(tensor.buffer).second) {
        return field.Unexpected(
            Text("a buffer of its own of kind ", key.substr(0, key.size() - 1)));
      }
      if (buffer.dtype != tensor.dtype) {
        return field.Unexpected(Text("a buffer of ", DtypeName(tensor.dtype)));
      }
      if (buffer.name != tensor.name) return field.Unexpected("the buffer of that name");
      if (!names.insert(tensor.name).second) {
        return Fail(FUSEC_BAD_ARTIFACT, item.where(), ".name \"", tensor.name, "\" is there twice");
      }
      return tensor;
    };
    FUSEC_RT_ASSIGN(signature, ReadList(root_, key, read));
    if (kind == BufferKind::kOutput && root_.Has("run_time_sizes")) {
      FUSEC_RT_ASSIGN(const auto sizes, root_.Field("run_time_sizes"));
      FUSEC_RT_ASSIGN(signature.emplace_back(), read(sizes));
      manifest_.has_run_time_sizes = true;
    }
    FUSEC_RT_TRY(CheckRunTimeSizes(manifest_, root_.where()));
    // A buffer of this kind that no tensor uses would have no memory.
    for (int i = 0; i < static_cast<int>(manifest_.buffers.size()); ++i) {
      if (manifest_.buffers[i].kind == kind && !seen.count(i)) {
        return Fail(FUSEC_BAD_ARTIFACT, root_.where(), "buffers[", i, "] belongs to none of the ",
                    key);
      }
    }
    return {};
  }

  StatusOr<IndexSite> ReadIndexSite(const JsonValue& item) {
    IndexSite site;
    FUSEC_RT_ASSIGN(site.node, ReadText(item, "node"));
    FUSEC_RT_ASSIGN(site.tensor, ReadText(item, "tensor"));
    FUSEC_RT_ASSIGN(site.input, ReadText(item, "input"));
    FUSEC_RT_ASSIGN(site.shape, ReadShape(item));
    FUSEC_RT_ASSIGN(site.extent, ReadDim(item, "extent"));
    FUSEC_RT_ASSIGN(const bool is_length, ReadFlag(item, "length"));
    FUSEC_RT_ASSIGN(const bool is_slot, ReadFlag(item, "slot"));
    if (is_length) site.values = IndexValues::kLength;
    if (is_slot) site.values = IndexValues::kSlot;
    return site;
  }

  // Every symbol must appear in the dims of some input, or else it could get no value.
  Status CheckSymbolsAreBound() {
    std::vector<bool> bound(symbols_.size());
    for (const TensorSignature& input : manifest_.inputs) {
      for (const DimExpression& dim : input.shape) {
        for (const int symbol : dim.Symbols()) bound[symbol] = true;
      }
    }
    for (size_t i = 0; i < symbols_.size(); ++i) {
      if (bound[i]) continue;
      return Fail(FUSEC_BAD_ARTIFACT, root_.where(), "symbols[", i, "] \"", symbols_[i],
                  "\" is in no dim of any input");
    }
    return {};
  }

  StatusOr<KernelArgument> ReadArgument(const JsonValue& item) {
    KernelArgument argument;
    if (item.Has("buffer")) {
      FUSEC_RT_ASSIGN(argument.buffer, ReadBufferIndex(item, "buffer"));
    } else if (item.Has("buffers")) {
      argument.kind = KernelArgument::Kind::kBuffers;
      FUSEC_RT_ASSIGN(argument.buffers, ReadList(item, "buffers", [this](const JsonValue& index) {
                        return AsBuffer(index);
                      }));
      if (argument.buffers.empty()) return item.Unexpected("at least one buffer");
    } else if (item.Has("dim")) {
      FUSEC_RT_ASSIGN(argument.dim, ReadDim(item, "dim"));
      FUSEC_RT_ASSIGN(const auto wide, ReadChoice<int>(item, "type", {"i32", "i64"}));
      argument.kind = wide ? KernelArgument::Kind::kInt64 : KernelArgument::Kind::kInt32;
    } else if (item.Has("errors")) {
      FUSEC_RT_TRY(ReadBool(item, "errors"));
      argument.kind = KernelArgument::Kind::kErrors;
    } else {
      return item.Unexpected("a buffer, dim or errors argument");
    }
    return argument;
  }

  StatusOr<KernelLaunch> ReadKernel(const JsonValue& item) {
    KernelLaunch kernel;
    FUSEC_RT_ASSIGN(kernel.function, ReadText(item, item.Has("function") ? "function" : "name"));
    FUSEC_RT_ASSIGN(const auto source, item.Field("source"));
    FUSEC_RT_ASSIGN(auto path, source.AsText());
    FUSEC_RT_ASSIGN(kernel.source, CheckPath(source, std::move(path)));
    if (item.Has("module")) {
      FUSEC_RT_ASSIGN(kernel.module, ReadText(item, "module"));
    }
    FUSEC_RT_ASSIGN(kernel.blocks, ReadDim(item, "blocks"));
    FUSEC_RT_ASSIGN(const auto block_size, ReadInt(item, "block_size", 1, 1024));
    FUSEC_RT_ASSIGN(const auto shared_bytes, ReadInt(item, "shared_bytes", 0, 1 << 20));
    kernel.block_size = static_cast<int>(block_size);
    kernel.shared_bytes = static_cast<int>(shared_bytes);
    FUSEC_RT_ASSIGN(kernel.dependent_launch, ReadFlag(item, "dependent_launch"));
    FUSEC_RT_ASSIGN(kernel.outputs_in_device_memory,
                    ReadFlag(item, "outputs_in_device_memory", true));
    FUSEC_RT_ASSIGN(kernel.arguments,
                    ReadList(item, "arguments",
                             [this](const JsonValue& argument) { return ReadArgument(argument); }));
    return kernel;
  }

  // Reads an operand of one of these dtypes, the first of which is the usual one.
  StatusOr<MatmulOperand> ReadOperand(const JsonValue& item, std::string_view key,
                                      std::initializer_list<fusec_dtype> dtypes) {
    MatmulOperand operand;
    FUSEC_RT_ASSIGN(const auto field, item.Field(key));
    FUSEC_RT_ASSIGN(operand.buffer, ReadBufferIndex(field, "buffer"));
    FUSEC_RT_ASSIGN(operand.offset, ReadDim(field, "offset"));
    FUSEC_RT_ASSIGN(operand.batch_stride, ReadDim(field, "batch_stride"));
    operand.dtype = manifest_.buffers[operand.buffer].dtype;
    if (std::find(dtypes.begin(), dtypes.end(), operand.dtype) == dtypes.end()) {
      FUSEC_RT_ASSIGN(const auto buffer, field.Field("buffer"));
      return buffer.Unexpected(Text("a buffer of ", DtypeName(*dtypes.begin())));
    }
    return operand;
  }

  StatusOr<Matmul> ReadMatmul(const JsonValue& item) {
    Matmul matmul;
    FUSEC_RT_ASSIGN(matmul.dtype, ReadDtype(item));
    FUSEC_RT_ASSIGN(matmul.m, ReadDim(item, "m"));
    FUSEC_RT_ASSIGN(matmul.n, ReadDim(item, "n"));
    FUSEC_RT_ASSIGN(matmul.k, ReadDim(item, "k"));
    FUSEC_RT_ASSIGN(matmul.batch, ReadDim(item, "batch"));
    const fusec_dtype dtype = matmul.dtype;
    const bool is_i32 = dtype == FUSEC_I32;  // perhaps of 8-bit factors
    FUSEC_RT_ASSIGN(matmul.a, ReadOperand(item, "a", {dtype, is_i32 ? FUSEC_U8 : dtype}));
    const fusec_dtype of_b = matmul.HasShortFactors() ? FUSEC_I8 : dtype;
    FUSEC_RT_ASSIGN(matmul.b, ReadOperand(item, "b", {of_b}));
    FUSEC_RT_ASSIGN(matmul.d, ReadOperand(item, "d", {dtype}));
    FUSEC_RT_ASSIGN(matmul.transpose_a, ReadBool(item, "transpose_a"));
    FUSEC_RT_ASSIGN(matmul.transpose_b, ReadBool(item, "transpose_b"));
    FUSEC_RT_ASSIGN(matmul.activation, ReadChoice<Activation>(item, "activation",
                                                              {"none", "relu", "gelu_tanh",
                                                               "gelu_erf", "sigmoid", "tanh"}));
    if (item.Has("algorithm")) {
      FUSEC_RT_ASSIGN(const auto field, item.Field("algorithm"));
      FUSEC_RT_ASSIGN(const std::string text, ReadText(item, "algorithm"));
      const auto algorithm = ParseAlgorithm(text);
      if (!algorithm) return field.Unexpected("a version of cuBLASLt and 8 words of an algorithm");
      matmul.algorithm = *algorithm;
    }
    if (item.Has("addend")) {
      FUSEC_RT_ASSIGN(matmul.addend, ReadAdded(item, "addend", matmul.dtype));
    }
    FUSEC_RT_ASSIGN(const auto bias, item.Field("bias"));
    if (const auto number = bias.AsInt(-1, -1); number) return matmul;
    FUSEC_RT_ASSIGN(matmul.bias, ReadAdded(item, "bias", matmul.dtype));
    if (item.Has("bias_stride")) {
      FUSEC_RT_ASSIGN(matmul.bias_stride, ReadDim(item, "bias_stride"));
    }
    return matmul;
  }

  // Reads a buffer that is added to a product (bias or addend).
  StatusOr<int> ReadAdded(const JsonValue& item, std::string_view key, fusec_dtype dtype) {
    FUSEC_RT_ASSIGN(const auto field, item.Field(key));
    FUSEC_RT_ASSIGN(const int buffer, AsBuffer(field));
    if (manifest_.buffers[buffer].dtype != dtype)
      return field.Unexpected(Text("a buffer of ", DtypeName(dtype)));
    return buffer;
  }

  StatusOr<Step> ReadStep(const JsonValue& item) {
    Step step;
    FUSEC_RT_ASSIGN(step.kind,
                    ReadChoice<Step::Kind>(item, "kind", {"kernel", "matmul", "artifact"}));
    FUSEC_RT_ASSIGN(step.name, ReadText(item, "name"));
    if (item.Has("edited")) {
      FUSEC_RT_ASSIGN(const auto edited, item.Field("edited"));
      FUSEC_RT_ASSIGN(step.edited, ReadText(edited, "check"));
    }
    if (item.Has("when")) {
      SizeRange& when = step.when.emplace();
      FUSEC_RT_ASSIGN(const auto field, item.Field("when"));
      FUSEC_RT_ASSIGN(when.size, ReadDim(field, "size"));
      FUSEC_RT_ASSIGN(when.from, ReadInt(field, "from", 0, INT64_MAX));
      FUSEC_RT_ASSIGN(when.to, ReadInt(field, "to", when.from, INT64_MAX));
      if (field.Has("by_waves")) {
        FUSEC_RT_ASSIGN(when.by_waves, ReadBool(field, "by_waves"));
      }
    }
    auto buffer = [this](const JsonValue& index) { return AsBuffer(index); };
    FUSEC_RT_ASSIGN(step.inputs, ReadList(item, "inputs", buffer));
    FUSEC_RT_ASSIGN(step.outputs, ReadList(item, "outputs", buffer));
    FUSEC_RT_ASSIGN(step.bytes_read, ReadDim(item, "bytes_read"));
    FUSEC_RT_ASSIGN(step.bytes_written, ReadDim(item, "bytes_written"));
    FUSEC_RT_ASSIGN(step.flops, ReadDim(item, "flops"));
    if (step.kind == Step::Kind::kKernel) {
      FUSEC_RT_ASSIGN(step.kernel, ReadKernel(item));
    } else if (step.kind == Step::Kind::kArtifact) {
      FUSEC_RT_ASSIGN(const auto folder, item.Field("folder"));
      FUSEC_RT_ASSIGN(auto path, folder.AsText());
      FUSEC_RT_ASSIGN(step.folder, CheckPath(folder, std::move(path)));
    } else {
      FUSEC_RT_ASSIGN(step.matmul, ReadMatmul(item));
    }
    FUSEC_RT_TRY(CheckStepBuffers(manifest_, step, item.where()));
    return step;
  }

  // Steps that run other artifacts occur only in the target "shards", which has no other steps.
  Status CheckArtifactSteps(const Target& target, const std::string& where) {
    const bool is_of_shards = target.name == kShardsTarget;
    for (size_t i = 0; i < target.steps.size(); ++i) {
      const bool is_artifact = target.steps[i].kind == Step::Kind::kArtifact;
      if (is_artifact == is_of_shards && !(is_artifact && target.steps[i].when)) continue;
      return Fail(FUSEC_BAD_ARTIFACT, where, "[", i, "] cannot be a step of target \"", target.name,
                  "\"");
    }
    return {};
  }

  Status ReadTargets() {
    FUSEC_RT_ASSIGN(const auto field, root_.Field("targets"));
    FUSEC_RT_ASSIGN(const auto targets, field.Members());
    for (const auto& [name, item] : targets) {
      Target& target = manifest_.targets[name];
      target.name = name;
      FUSEC_RT_ASSIGN(const auto files_field, item.Field("files"));
      FUSEC_RT_ASSIGN(const auto files, files_field.Members());
      for (const auto& [key, value] : files) {
        FUSEC_RT_ASSIGN(auto path, value.AsText());
        FUSEC_RT_ASSIGN(target.files[key], CheckPath(value, std::move(path)));
      }
      if (item.Has("multiprocessors")) {
        FUSEC_RT_ASSIGN(target.multiprocessors, ReadInt(item, "multiprocessors", 1, INT16_MAX));
      }
      FUSEC_RT_ASSIGN(target.steps, ReadList(item, "steps", [this](const JsonValue& step) {
                        return ReadStep(step);
                      }));
      FUSEC_RT_TRY(CheckStepOrder(manifest_, target.steps, item.where() + ".steps"));
      FUSEC_RT_TRY(CheckArtifactSteps(target, item.where() + ".steps"));
    }
    return {};
  }

  Status ReadFiles() {
    FUSEC_RT_ASSIGN(const auto field, root_.Field("files"));
    FUSEC_RT_ASSIGN(const auto files, field.Members());
    for (const auto& [path, value] : files) {
      FUSEC_RT_ASSIGN(const auto hash, value.AsText());
      const bool good = hash.size() == 32 && std::all_of(hash.begin(), hash.end(), [](char c) {
                          return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
                        });
      if (!good) return value.Unexpected("an XXH3-128 hash of 32 hexadecimal digits");
      FUSEC_RT_TRY(CheckPath(value, path));
      manifest_.hashes[path] = hash;
    }
    return {};
  }

  const JsonValue& root_;
  Manifest& manifest_;
  List<std::string> symbols_;
};

}  // namespace

std::vector<std::string> Manifest::SymbolNames() const {
  std::vector<std::string> names;
  for (const Symbol& symbol : symbols) names.push_back(symbol.name);
  return names;
}

StatusOr<Manifest> ParseManifest(std::string_view json, const std::string& file) {
  FUSEC_RT_TRY(CheckManifestHash(json, file));
  FUSEC_RT_ASSIGN(const auto document, JsonDocument::Parse(json, file));
  Manifest manifest;
  const JsonValue root = document.root();
  FUSEC_RT_TRY(ManifestReader(root, manifest).Read());
  return manifest;
}

}  // namespace fusec::runtime
